"""`pflow workflow import`, played as people type it."""

import json
import shutil
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "data" / "markdown"
NAMES = sorted(path.stem for path in FOLDER.glob("*.md"))
NEED_MORE = {
    "parent": "No such file: child.json",
    "saved_parent": "No workflow is saved as greet",
    "tools": "nowhere",
}
"""Workflows that are valid once what they need is there."""
MAY_NEED_MORE = {"model"}
WARNED = {
    "input_types": "${either} has no value if the run is not given input either",
    "front_matter": "line 1, column 1: The front matter is not converted",
    "sections": "line 3, column 1: The section Usage is not converted",
}
WRONG = "# T\n\n## Steps\n\n### say\n- type: shell\n- command: echo ${nobody}\n- colour: red\n"
AGENT = "# T\n\n## Steps\n\n### ask\n- type: claude-code\n\n### say\n- type: shell\n- command: echo hi\n"


@pytest.fixture
def written(tmp_path):
    for path in FOLDER.glob("*.md"):
        shutil.copy(path, tmp_path)
    (tmp_path / "wrong.md").write_text(WRONG)
    (tmp_path / "lost.md").write_text(AGENT)
    return tmp_path


@pytest.mark.parametrize("name", [name for name in NAMES if name != "agent"])
def test_each_workflow_is_converted_and_valid(pflow, written, name):
    done = pflow("workflow", "import", f"{name}.md")
    assert done.exit_code == 0, done.stderr
    assert {*json.loads(done.stdout)} <= {"name", "description", "inputs", "nodes", "outputs"}
    told = NEED_MORE.get(name) or WARNED.get(name)
    if name not in MAY_NEED_MORE:
        assert told in done.stderr if told else not done.stderr
    assert sorted(path.name for path in written.iterdir() if path.suffix != ".md") == ["home"]


def test_a_converted_workflow_runs_as_it_did(pflow, written):
    (written / "texts").mkdir()
    (written / "texts" / "a.txt").write_text("one two\n")
    (written / "texts" / "b.txt").write_text("three")
    assert pflow("workflow", "import", "everyday.md", "--output", "everyday.yaml").exit_code == 0
    done = pflow("run", "everyday.yaml", "folder=texts", "report=out/words.md", "--json")
    assert done.envelope["data"]["outputs"]["file"].endswith("out/words.md")
    assert (written / "out" / "words.md").read_text() == "# Words\n\nThere are 3\n"


@pytest.mark.parametrize(
    ("name", "inputs", "piped", "outputs"),
    [
        ("batch_block", (), "", {"first": "ANN"}),
        ("piped", (), "b\na\n", {"sorted": "a\nb\n"}),
        ("child", ("who=ann",), "", {"greeting": "Hello ann"}),
        ("input_types", ("text=x", "either=1", "anything=y"), "", None),
    ],
)
def test_batches_inputs_and_outputs_give_the_right_values(pflow, written, name, inputs, piped, outputs):
    assert pflow("workflow", "import", f"{name}.md", "--output", "wf.json").exit_code == 0
    done = pflow("run", "wf.json", *inputs, "--json", stdin=piped)
    assert done.exit_code == 0, done.stderr
    assert outputs is None or done.envelope["data"]["outputs"] == outputs


def test_a_workflow_and_those_that_it_runs_are_converted_one_after_the_other(pflow, written):
    first = pflow("workflow", "import", "parent.md", "--output", "parent.json")
    assert first.exit_code == 0
    assert "pflow workflow import child.md --output child.json" in first.stderr
    assert pflow("workflow", "import", "child.md", "--output", "child.json").exit_code == 0
    done = pflow("run", "parent.json", "name=ann", "--json")
    assert done.envelope["data"]["outputs"] == {"loud": "Hello ann!", "asked": "Hello ann?"}


def test_it_may_be_saved_at_once(pflow, written):
    saved = pflow("workflow", "import", "child.md", "--save", "greet")
    assert saved.stdout.startswith("Saved greet, version 1")
    assert pflow("workflow", "import", "saved_parent.md", "--save", "greet-ann").exit_code == 0
    done = pflow("run", "greet-ann", "--json")
    assert done.envelope["data"]["outputs"] == {"text": "Hello ann"}
    data = pflow("workflow", "import", "child.md", "--save", "greet", "--json").envelope["data"]
    assert Path(data["path"]).name == "greet.json"


def test_mistakes_of_the_workflow_are_named_with_their_lines(pflow, written):
    done = pflow("workflow", "import", "wrong.md", "--output", "wf.json")
    assert done.exit_code == 2
    assert "line 7, column 3" in done.stderr
    assert "line 8, column 3" in done.stderr
    assert not (written / "wf.json").exists()
    found = pflow("workflow", "import", "wrong.md", "--json").envelope["error"]["details"]["problems"]
    assert [it["line"] for it in found] == [7, 8]


def test_what_has_no_equivalent_is_refused_or_left_out(pflow, written):
    refused = pflow("workflow", "import", "lost.md")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "line 6, column 3: Step ask: claude-code has no equivalent" in refused.stderr
    assert "--partial" in refused.stderr
    partial = pflow("workflow", "import", "lost.md", "--partial")
    assert partial.exit_code == 0
    assert [node["id"] for node in json.loads(partial.stdout)["nodes"]] == ["say"]
    assert "warning: line 6, column 3: Step ask: claude-code has no equivalent" in partial.stderr
    data = pflow("workflow", "import", "lost.md", "--partial", "--json").envelope["data"]
    assert [it["line"] for it in data["problems"]] == [6]
    assert [node["id"] for node in data["workflow"]["nodes"]] == ["say"]


def test_what_is_left_out_is_missed_where_it_is_named(pflow, written):
    partial = pflow("workflow", "import", "agent.md", "--partial")
    assert partial.exit_code == 0
    (written / "lost.md").write_text(AGENT.replace("echo hi", "echo ${ask.response}"))
    partial = pflow("workflow", "import", "lost.md", "--partial")
    assert partial.exit_code == 0
    assert "line 10, column 3" in partial.stderr
    assert pflow("workflow", "import", "lost.md", "--partial", "--save", "lost").exit_code == 2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"# T\n\xff\n", "is not UTF-8 (byte 4)"),
        (b'{"nodes": []}', "There is no section ## Steps"),
    ],
)
def test_what_is_no_workflow_is_refused(pflow, tmp_path, content, said):
    (tmp_path / "wf.md").write_bytes(content)
    for options in ((), ("--partial",)):
        done = pflow("workflow", "import", "wf.md", *options)
        assert (done.exit_code, done.stdout) == (2, "")
        assert said in done.stderr


def test_a_file_that_is_not_there_and_options_that_exclude_each_other_are_refused(pflow, written):
    assert "No such file: nothing.md" in pflow("workflow", "import", "nothing.md").stderr
    assert pflow("workflow", "import", "nothing.md").exit_code == 2
    done = pflow("workflow", "import", "child.md", "--output", "x.json", "--save", "x")
    assert done.exit_code == 2
    assert "exclude each other" in done.stderr
    assert pflow("workflow", "import", "child.md", "--save", "Not A Name").exit_code == 2
    before = (written / "child.md").read_text()
    assert pflow("workflow", "import", "child.md", "--output", "child.md").exit_code == 2
    assert (written / "child.md").read_text() == before


@pytest.mark.parametrize("words", [("run",), ("validate",), ("workflow", "save")])
def test_where_a_workflow_is_expected_a_markdown_file_is_answered_with_the_command(pflow, written, words):
    refused = pflow(*words, "child.md")
    assert refused.exit_code == 2
    assert "pflow workflow import child.md" in refused.stderr


def test_it_reads_what_is_piped_in(pflow, written):
    done = pflow("workflow", "import", "/dev/stdin", stdin=(written / "child.md").read_text())
    assert json.loads(done.stdout)["name"] == "Greet somebody"
