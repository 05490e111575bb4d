"""Every workflow in `examples/` runs on real servers, exported as a program too, and its README names it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
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
def playground(git_command, tmp_path) -> Path:
    """A repository with one commit, where the servers work."""
    folder = tmp_path / "repository"
    (folder / "a.txt").write_text("hello\n")
    for words in (
        ["config", "user.name", "A"],
        ["config", "user.email", "a@example.com"],
        ["add", "a.txt"],
        ["commit", "--quiet", "-m", "First"],
    ):
        subprocess.run(["git", "-C", str(folder), *words], check=True)
    return folder


@pytest.fixture
def exported(pflow, playground, tmp_path):
    """Run an example as a Python program of its own; return its outputs."""

    def run(workflow, *inputs):
        program = tmp_path / "elsewhere" / "program.py"
        program.parent.mkdir()
        written = pflow("workflow", "export-python", workflow, "--output", program)
        assert written.exit_code == 0, written.stderr
        command = [sys.executable, "-P", str(program), *inputs]
        done = subprocess.run(command, cwd=playground, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture
def example(pflow, playground, exported, tmp_path, request):
    """Add the servers that an example needs, and run it: `example("1-time", "timezone=UTC")`.

    It runs twice, as a workflow and as the Python program that it is exported to; both do the same.
    """
    commands = {
        "filesystem": lambda: _after(request, "everything_command", real_servers.filesystem(playground)),
        "git": lambda: real_servers.git(playground),
        "time": lambda: request.getfixturevalue("time_command"),
        "everything": lambda: request.getfixturevalue("everything_command"),
        "duckdb": lambda: request.getfixturevalue("duckdb_command"),
    }

    def run(name, *inputs):
        workflow = EXAMPLES / f"{name}.json"
        for server in sorted(servers_of(workflow)):
            added = pflow("mcp", "add", "--sync", server, "--", *commands[server](), cwd=playground)
            assert added.exit_code == 0, added.stderr
        checked = pflow("validate", workflow, cwd=playground)
        assert checked.exit_code == 0, checked.stderr
        shutil.copytree(playground, tmp_path / "before")
        ran = pflow("run", workflow, *inputs, "--json", cwd=playground)
        assert ran.exit_code == 0, ran.stderr
        outputs, files = ran.envelope["data"]["outputs"], _files(playground)
        shutil.rmtree(playground)
        shutil.copytree(tmp_path / "before", playground)
        assert _lasting(exported(workflow, *inputs)) == _lasting(outputs)
        assert _files(playground) == files
        return outputs

    return run


def _after(request, fixture, command):
    request.getfixturevalue(fixture)
    return command


def servers_of(workflow: Path) -> set[str]:
    nodes = json.loads(workflow.read_text(encoding="utf-8"))["nodes"]
    return {node["type"].split("-")[1] for node in nodes}


def test_the_readme_names_every_example_and_its_servers():
    rows = [
        line for line in (EXAMPLES / "README.md").read_text(encoding="utf-8").splitlines() if "](" in line
    ]
    configured = json.loads((EXAMPLES / "servers.json").read_text(encoding="utf-8"))["mcpServers"]
    for path in sorted(EXAMPLES.glob("[0-9]-*.json")):
        (row,) = [line for line in rows if f"[{path.name}]" in line]
        assert set(row.split("|")[2].replace(" ", "").split(",")) == servers_of(path)
        assert servers_of(path) <= set(configured)


def test_every_example_runs_without_inputs():
    for path in EXAMPLES.glob("[0-9]-*.json"):
        inputs = json.loads(path.read_text(encoding="utf-8")).get("inputs", {})
        assert [name for name, declared in inputs.items() if "default" not in declared] == []


def test_1_tells_the_time(example, no_leftovers):
    assert example("1-time", "timezone=Asia/Tokyo")["time"].endswith("+09:00")


def test_2_writes_a_note_and_reads_it(example, playground):
    assert example("2-note", "text=Feed the cat") == {"content": "To do:\n- Feed the cat\n"}
    assert (playground / "note.txt").exists()


@installs
def test_3_keeps_a_table_between_steps(example, playground):
    sales = json.loads(example("3-sales", "minimum=26")["sales"])
    assert sales["rows"] == [["north", 30]]
    assert json.loads((playground / "sales.json").read_text()) == sales


def test_4_puts_the_log_into_a_file(example, playground):
    assert "First" in example("4-changes")["log"]
    assert (playground / "CHANGES.txt").read_text().startswith("As of 20")


def test_5_converts_for_each_zone_and_collects_what_fails(example):
    found = example("5-world-clock", 'zones=["Asia/Tokyo", "Mars/Base", "UTC"]')
    assert [time and time["target"]["timezone"] for time in found["times"]] == ["Asia/Tokyo", None, "UTC"]
    assert [(item["index"], item["item"]) for item in found["unknown"]] == [(1, "Mars/Base")]


def test_6_creates_the_file_only_if_it_is_not_there(example, playground):
    assert "created" in example("6-read-or-create")
    assert (playground / "settings.ini").read_text().startswith("[settings]")


def test_6_leaves_a_file_that_is_there(example, playground):
    (playground / "settings.ini").write_text("mine")
    assert example("6-read-or-create")["created"] is None
    assert (playground / "settings.ini").read_text() == "mine"


def test_7_makes_a_card_and_keeps_the_picture(example):
    found = example("7-weather-card", "city=New York")
    assert "New York: Cloudy, 33 degrees. The sum of 33 and -2 is 31." in found["card"]
    assert Path(found["picture"]).read_bytes().startswith(b"\x89PNG")


@installs
def test_8_reports_and_commits(example, playground):
    found = example("8-report")
    assert "Report on 2 files" in found["log"]
    assert [item["item"] for item in found["unreadable"]] == ["b.txt"]
    assert found["apology"] is None
    assert '"rows"' in (playground / "REPORT.txt").read_text()


@installs
def test_8_takes_the_error_route_when_it_cannot_commit(example, playground):
    (playground / ".git" / "index.lock").touch()
    found = example("8-report")
    assert found["log"] is None
    assert (playground / "FAILED.txt").exists()


def test_the_same_nodes_run_in_python(pflow, playground, everything_command):
    command = real_servers.filesystem(playground)
    assert pflow("mcp", "add", "--sync", "filesystem", "--", *command, cwd=playground).exit_code == 0
    program = [sys.executable, str(EXAMPLES / "notes.py")]
    for path, expected in (("note.txt", "one\n"), ("/etc/note.txt", "Access denied")):
        done = subprocess.run(
            [*program, path, "one\ntwo"],
            cwd=playground,
            capture_output=True,
            text=True,
            check=True,
            env=dict(os.environ),
        )
        assert expected in done.stdout, done.stderr
