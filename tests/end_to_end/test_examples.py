"""Every workflow in `examples/` runs on real servers, exported as a program too, and its README names it."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import real_servers

EXAMPLES = Path(__file__).parents[2] / "examples"
pytestmark = pytest.mark.servers
installs = pytest.mark.timeout(600)
"""For tests that may be the first to need the DuckDB server: its install takes minutes."""


OWN = re.compile(
    r"\d{8}-\d{6}-[0-9a-f]+"  # the id of a run
    r"|\d{4}-\d\d-\d\d[T ][\d:.+Z-]+"
    r"|\d\d:\d\d:\d\d"
    r"|[0-9a-f]{7,40}"  # a commit
)


def _lasting(value: object) -> object:
    """Return outputs without what every run has its own of."""
    return json.loads(OWN.sub("~", json.dumps(value)))


def _files(folder: Path) -> dict[str, object]:
    files = (path for path in folder.rglob("*") if path.is_file() and ".git" not in path.parts)
    return {path.name: _lasting(path.read_text(encoding="utf-8")) for path in files}


@pytest.fixture
def playground(homes) -> Path:
    """A repository with one commit, where the servers work: for each test a new one in the same place."""
    folder = homes / "repository"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "a.txt").write_text("hello\n")
    identity = ("config user.name A", "config user.email a@b.example")
    for words in ("init --quiet", *identity, "add .", "commit --quiet -m First"):
        subprocess.run(["git", "-C", str(folder), *words.split()], check=True)
    return folder


@pytest.fixture
def add_servers(pflow, pflow_home, playground, homes, request):
    """Add servers and sync them; the next test that needs the same ones gets a copy of that home."""

    def command_of(server):
        # The filesystem server is installed with the reference server.
        found = request.getfixturevalue(f"{server.replace('filesystem', 'everything')}_command")
        at_work = {"git": real_servers.git, "filesystem": real_servers.filesystem}
        return at_work[server](playground) if server in at_work else found

    def add(servers):
        kept = homes / "-".join(sorted(servers))
        if not kept.exists():
            for server in sorted(servers):
                added = pflow("mcp", "add", "--sync", server, "--", *command_of(server), cwd=playground)
                assert added.exit_code == 0, added.stderr
            shutil.copytree(pflow_home, kept)
        shutil.copytree(kept, pflow_home, dirs_exist_ok=True)

    return add


@pytest.fixture
def example(pflow, python, playground, tmp_path, add_servers):
    """Add the servers that an example needs, and run it: `example("1-time", "timezone=UTC")`.

    Where it is `exported`, it runs as the Python program too, and both do the same.
    """

    def run(name, *inputs, exported=False):
        workflow = EXAMPLES / f"{name}.json"
        add_servers(servers_of(workflow))
        shutil.copytree(playground, tmp_path / "before")
        ran = pflow("run", workflow, *inputs, "--json", cwd=playground)
        assert ran.exit_code == 0, ran.stderr
        outputs, files = ran.envelope["data"]["outputs"], _files(playground)
        if not exported:
            return outputs
        shutil.rmtree(playground)
        shutil.copytree(tmp_path / "before", playground)
        program = pflow("workflow", "export-python", workflow, cwd=playground).stdout
        done = python("-c", program, *inputs, cwd=playground)
        assert done.exit_code == 0, done.stderr
        assert _lasting(json.loads(done.stdout)) == _lasting(outputs)
        assert _files(playground) == files
        return outputs

    return run


def servers_of(workflow: Path) -> set[str]:
    """Return the servers of a workflow, and of those that are written in it."""
    return set(re.findall(r'"type": "mcp-([a-z]+)-', workflow.read_text(encoding="utf-8")))


def test_the_readme_names_every_example_and_its_servers_and_each_runs_without_inputs():
    rows = re.findall(r"^.*\]\(.*$", (EXAMPLES / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    configured = json.loads((EXAMPLES / "servers.json").read_text(encoding="utf-8"))["mcpServers"]
    for path in sorted(EXAMPLES.glob("[0-9]*.json")):
        (row,) = [line for line in rows if f"[{path.name}]" in line]
        assert set(row.split("|")[2].replace(" ", "").split(",")) == servers_of(path)
        assert servers_of(path) <= set(configured)
        inputs = json.loads(path.read_text(encoding="utf-8")).get("inputs", {})
        assert all("default" in declared for declared in inputs.values())


def test_1_tells_the_time(example, no_leftovers):
    assert example("1-time", "timezone=Asia/Tokyo")["time"].endswith("+09:00")


def test_2_writes_a_note_and_reads_it(example, playground):
    assert example("2-note", "text=Feed the cat") == {"content": "To do:\n- Feed the cat\n"}
    assert (playground / "note.txt").exists()


@installs
def test_3_counts_the_files_of_a_folder_in_a_table(example, playground):
    (playground / "it's.txt").write_text("one two\n\nthree")
    (playground / "empty.txt").touch()
    (playground / "below").mkdir()
    report = example("3-word-counts", exported=True)["report"]
    assert report == "file,lines,words\nit's.txt,3,3\na.txt,1,1\nempty.txt,0,0\ntotal,4,4\n"
    assert (playground / "word-counts.csv").read_text() == report


def test_4_summarizes_the_log_by_author(example, playground):
    options = ["-c", "user.name=O'Neil", "-c", "user.email=b@example.com"]
    commit = ["commit", "--allow-empty", "--quiet", "-m", "Second: 'x'", "-m", "With a body"]
    subprocess.run(["git", "-C", str(playground), *options, *commit], check=True)
    assert example("4-changes") == {"summary": "O'Neil\n- Second: 'x'\n\nA\n- First", "failure": None}
    assert (playground / "CHANGES.txt").read_text() == "O'Neil\n- Second: 'x'\n\nA\n- First\n"


def test_4_writes_down_why_there_is_no_log(example, playground):
    found = example("4-changes", "repository=nowhere", exported=True)
    assert found["summary"] is None
    assert "nowhere" in found["failure"]
    assert found["failure"] in (playground / "FAILED.txt").read_text()
    assert not (playground / "CHANGES.txt").exists()


def test_5_converts_for_each_zone_and_collects_what_fails(example):
    found = example("5-world-clock", 'zones=["Asia/Tokyo", "Mars/Base", "UTC"]', exported=True)
    assert [time and time["target"]["timezone"] for time in found["times"]] == ["Asia/Tokyo", None, "UTC"]
    assert [(item["index"], item["item"]) for item in found["unknown"]] == [(1, "Mars/Base")]


@pytest.mark.parametrize("there", [False, True])
def test_6_creates_the_file_only_if_it_is_not_there(example, playground, there):
    if there:
        (playground / "settings.ini").write_text("mine")
    assert (example("6-read-or-create")["created"] is None) == there
    assert (playground / "settings.ini").read_text().startswith("mine" if there else "[settings]")


def test_7_has_a_card_for_the_weather_and_keeps_the_picture(example):
    found = example("7-weather-card", "city=Los Angeles", exported=True)
    card = "Echo: Los Angeles: Sunny / Clear, 73 degrees. Take sunglasses."
    assert (found["case"], found["card"]) == ("warm", card)
    assert Path(found["picture"]).read_bytes().startswith(b"\x89PNG")


@installs
def test_8_reports_and_commits(example, playground):
    found = example("8-report")
    assert "Report on 2 files" in found["log"]
    assert [item["item"] for item in found["unreadable"]] == ["b.txt"]
    assert found["apology"] is None
    assert '"rows"' in (playground / "REPORT.txt").read_text()


def test_9_makes_200_calls_in_parallel(example):
    assert example("9-many-calls") == {"total": 39_800, "failed": []}


def test_10_does_three_steps_for_each_file(example, playground):
    (playground / "b.txt").write_text("A title\nand five words\n")
    (playground / "folder.txt").mkdir()
    found = example("10-each-file", exported=True)
    cards = {Path(card["item"]).name: card["result"] for card in found["cards"]}
    assert cards["a.txt"] == {"title": "hello", "words": 1}
    assert cards["b.txt"] == {"title": "A title", "words": 5}
    assert (playground / "b.txt.card").read_text() == "A title\n5 words\n"
    (failed,) = found["failed"]
    assert Path(failed["item"]).name == "folder.txt"
    assert "each/read" in failed["error"]


def test_the_same_nodes_run_in_python(add_servers, python, playground):
    add_servers({"filesystem"})
    for path, expected in (("note.txt", "one\n"), ("/etc/note.txt", "Access denied")):
        done = python(EXAMPLES / "notes.py", path, "one\ntwo", cwd=playground)
        assert done.exit_code == 0, done.stderr
        assert expected in done.stdout
