import json
from types import SimpleNamespace

import pytest
from workflow_parts import edge, flow, step

from pflow_mcp_plugin.contract import Command, hookimpl

SLEEPER = flow(step("s", "shell", {"command": "sleep 60"}))
SECRET = flow(
    step("make", "shell", {"command": "touch made"}),
    step("each", "echo", {"message": "${item}"}, batch={"items": "${names}"}, when="make.stdout != 'x'"),
    inputs={"token": {"type": "str", "secret": True}, "names": {"type": "list", "default": ["a", "b"]}},
    edges=[edge("make", "each")],
)


@pytest.fixture
def pflow(in_process):
    return in_process


@pytest.fixture
def files(tmp_path, monkeypatch, write):
    monkeypatch.chdir(tmp_path)
    write(SLEEPER, "sleeper.json")
    write(SECRET, "secret.json")
    write(flow(step("a", "ecko")), "wrong.json")
    return tmp_path


def test_a_dry_run_shows_what_would_run_and_runs_nothing(pflow, files):
    code, out, _ = pflow("run", "secret.json", "token=planted-token", "--dry-run")
    assert code == 0
    assert "nothing was run" in out
    assert "input names = " in out
    assert "planted" not in out
    assert not (files / "made").exists()
    data = json.loads(pflow("run", "secret.json", "token=planted-token", "--dry-run", "--json")[1])["data"]
    assert data["inputs"] == {"token": "***", "names": ["a", "b"]}
    assert [(node["id"], node["batch"], node["when"]) for node in data["nodes"]] == [
        ("make", False, ""),
        ("each", True, "make.stdout != 'x'"),
    ]
    assert data["servers"] == []


def test_a_dry_run_fills_in_what_is_known_before_a_run(pflow, files, write):
    workflow = flow(
        step("a", "echo", {"message": "hi ${who}, ${ages[1]}, ${key}"}),
        step("b", "echo", {"message": "${a.message}"}, batch={"items": "${ages}"}),
        inputs={"who": {"type": "str"}, "ages": {"type": "list"}, "key": {"type": "str", "secret": True}},
        edges=[edge("a", "b")],
    )
    words = ("run", write(workflow), "who=ann", "ages=[3, 4]", "key=planted-key", "--dry-run")
    first, second = json.loads(pflow(*words, "--json")[1])["data"]["nodes"]
    assert first["params"] == {"message": "hi ann, 4, ***"}
    assert second["params"] == {"message": "${a.message}"}
    assert second["items"] == 2
    out = pflow(*words)[1]
    assert 'message="hi ann, 4, ***"' in out
    assert "for each of 2 items" in out


def test_a_run_that_lasts_longer_than_its_limit_is_stopped(pflow, files):
    code, out, err = pflow("run", "sleeper.json", "--timeout", "0.3s", "--json")
    assert (code, err.splitlines()[0]) == (1, "Error: The run was stopped after 0.3 s, its time limit")
    assert json.loads(out)["error"]["type"] == "execution"


def test_one_of_several_workflows_that_cannot_be_read_does_not_hide_the_others(pflow, files):
    (files / "half.json").write_text('{"nodes": [')
    words = ("validate", "wrong.json", "absent.json", "half.json", "sleeper.json")
    code, out, err = pflow(*words)
    assert (code, out) == (2, "sleeper.json is valid\n")
    assert err.startswith("Error: 3 of 4 workflows are invalid: wrong.json, absent.json, half.json\n")
    assert "- No such file: absent.json" in err
    assert "- half.json is not valid JSON" in err
    found = json.loads(pflow(*words, "--json")[1])["error"]["details"]["data"]
    assert [it["workflow"] for it in found] == ["wrong.json", "absent.json", "half.json", "sleeper.json"]
    assert [it["findings"]["valid"] for it in found] == [False, False, False, True]


@pytest.mark.parametrize(
    ("file", "wrong"),
    [
        ("secret.json", "YAML"),
        ("there.yaml", "exists already"),
        ("", "workflow.yaml"),
    ],
)
def test_the_first_workflow_replaces_nothing(pflow, files, file, wrong):
    (files / "there.yaml").write_text("mine")
    code, _, err = pflow("workflow", "init", file)
    assert (code, wrong in err) == (2, True)
    assert (files / "there.yaml").read_text() == "mine"


def test_a_workflow_is_saved_under_the_name_of_its_file(pflow, files, write):
    for file, name in (("Weekly Report.json", "weekly-report"), ("Übersicht.json", "ubersicht")):
        assert pflow("workflow", "save", write(SECRET, file))[1].startswith(f"Saved {name}, version 1")
    code, _, err = pflow("workflow", "save", write(SECRET, "!.json"))
    assert (code, "--name NAME" in err) == (2, True)


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
    ("words", "expected"),
    [
        ("daily_report", "Did you mean daily-report?"),
        ("./daily-report.json", "Did you mean daily-report?"),
        ("reprot.json", "Did you mean report.json?"),
        ("echo", "It is a node type, not a workflow; run it with: pflow echo"),
        ("who=ann", "Name the workflow first: pflow run WORKFLOW NAME=VALUE"),
        ("", "Name a file, or a saved workflow; see: pflow workflow list"),
        ("report.json --who ann", "If who is an input: who=VALUE"),
    ],
)
def test_a_workflow_is_looked_for_among_files_saved_ones_and_nodes(suggested, words, expected):
    assert expected in suggested("run", *words.split(" "))
