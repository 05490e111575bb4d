"""What wrong words lead to; `test_cli.py` has the form of such an answer."""

from types import SimpleNamespace

import pytest
from workflow_parts import flow, step

from pflow_mcp_plugin.contract import Command, hookimpl

WORKFLOW = flow(step("a", "echo", {"message": "x"}), inputs={"who": {"type": "str"}})


@pytest.fixture
def suggested(tmp_path, monkeypatch, in_process, write):
    """Run a command line that fails; return what was suggested, the exit code checked."""
    monkeypatch.chdir(tmp_path)
    file = write(WORKFLOW, "report.json")
    assert in_process("workflow", "save", file, "--name", "daily-report")[0] == 0

    def suggested(*words, plugins=()):
        code, _, errors = in_process(*words, plugins=plugins)
        assert code == 2
        return [line[5:] for line in errors.splitlines() if line.startswith("  -> ")]

    return suggested


@pytest.mark.parametrize(
    ("line", "first"),
    [
        # The next word decides which of several commands is meant.
        ("rm daily-report", "Did you mean pflow workflow delete daily-report?"),
        ("describe echo", "Did you mean pflow registry describe echo?"),
        ("exec daily-report", "Did you mean pflow run daily-report?"),
        # A name in place of a command.
        ("workflow daily-report", "Did you mean pflow workflow show daily-report?"),
        # Without one, or where it is unknown, the word alone does.
        ("exec", "Did you mean pflow run?"),
        ("workflow list-everything", "Did you mean pflow workflow list?"),
        ("trace latest", "Did you mean pflow trace show latest?"),
        # Commands that stand elsewhere.
        ("workflow run daily-report", "Did you mean pflow run?"),
        ("config set KEY value", "Did you mean pflow settings set?"),
        ("version", "Did you mean pflow --version?"),
    ],
)
def test_a_word_that_is_no_command_leads_to_the_one_that_is_meant(suggested, line, first):
    assert suggested(*line.split())[0] == first


def test_a_hidden_command_is_not_suggested(suggested):
    command = Command(path=("voice", "sync"), help="Old.", load="x:y", hidden=True)
    shown = Command(path=("voice", "upgrade"), help="New.", load="x:y")
    plugin = SimpleNamespace(pflow_register_commands=hookimpl(lambda: [command, shown]))
    assert suggested("update", plugins=[plugin])[0] == "Did you mean pflow voice upgrade?"


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("daily_report", "Did you mean daily-report?"),
        ("./daily-report.json", "Did you mean daily-report?"),
        ("reprot.json", "Did you mean report.json?"),
        ("echo", "It is a node type, not a workflow; run it with: pflow echo"),
        ("who=ann", "Name the workflow first: pflow run WORKFLOW NAME=VALUE"),
        ("", "Name a file, or a saved workflow; see: pflow workflow list"),
    ],
)
def test_a_workflow_is_looked_for_among_files_saved_ones_and_nodes(suggested, word, expected):
    assert expected in suggested("run", word)


def test_an_input_given_as_an_option_says_how_inputs_are_written(suggested):
    assert "If who is an input: who=VALUE" in suggested("run", "report.json", "--who", "ann")
