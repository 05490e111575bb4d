import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from workflow_parts import flow

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.direct.direct_run import read_links
from pflow_mcp_plugin.host.direct.link_words import read_chain

PROGRAM = ["-m", "pflow_mcp_plugin"]


@pytest.fixture
def run(bench, monkeypatch):
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)

        def run(*words: str):
            return bench.host.run_chain(words, "pflow")

        yield run


@pytest.fixture
def seen(bench):
    """What the node `t-note` was given as its text, which it requires."""
    noted = []

    @bench.acts("t-note", ["text: str!", "token: str"], ["text: str"], inputs=("text", "token"))
    def note(shared, params):
        noted.append(params.get("text", shared.get("text")))
        shared["text"] = noted[-1]

    return noted


def test_a_node_prints_its_result_as_text_if_it_is_text_else_as_json(pflow):
    assert pflow("echo", "--message", "hi there").stdout == "hi there\n"
    assert pflow("shell", "--command", "printf '%s' \"$0\" ${x:-y}").stdout.endswith("\n")
    read = pflow("echo", "--message", '{"a": [1]}', "then", "echo", "--message", "${message.a}")
    assert json.loads(read.stdout) == [1]


def test_json_prints_the_envelope_of_a_run_with_the_result_beside_the_outputs(pflow):
    envelope = pflow("shell", "--command", "echo out; echo err >&2", "--json").envelope
    data = envelope["data"]
    assert data["result"] == "out\n"
    assert data["outputs"] == {"stdout": "out\n", "stderr": "err\n", "exit_code": 0, "lines": ["out"]}
    trace = json.loads(Path(envelope["trace_path"]).read_text())
    assert (trace["run_id"], trace["workflow"]) == (data["run_id"], "shell")


def test_what_a_tool_says_as_text_stays_text(run, seen):
    run("echo", "--message", '{"a": 1}', "then", "t-note")
    assert seen == ['{"a": 1}']


def test_every_mistake_of_a_line_is_reported_at_once_and_nothing_runs(pflow, tmp_path):
    """The flags of a misspelt node are checked as those of the one that is meant."""
    words = ["write-file", "--file-path", "a", "--contnet", "b", "then", "ecko", "--mesage", "c"]
    failed = pflow(*words, "then", "echo", "--message", "--json")
    assert failed.exit_code == 2
    problems = failed.envelope["error"]["details"]["problems"]
    assert [problem["message"] for problem in problems] == [
        "write-file has no flag --contnet",
        "Unknown node type ecko",
        "echo has no flag --mesage",
        "--message of echo needs a value",
    ]
    assert problems[0]["suggestion"] == "Did you mean --content?"
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["shell", "--command", "exit 3"], 1),
        (["echo"], 2),
        (["run-node", "nope"], 2),
        (["echo", "--message", "a", "then", "shell", "--command", "exit 3", "--no-check"], 0),
    ],
)
def test_the_exit_codes_are_those_of_a_run(pflow, words, code):
    done = pflow(*words)
    assert done.exit_code == code
    assert bool(done.stderr) == bool(code)


def test_a_chain_that_is_printed_is_valid_and_runs_unchanged(pflow, tmp_path):
    words = ["echo", "--message", "a ${x}", "then", "shell", "--command", "cat; echo ${message}", "--env"]
    words += ['{"A": "1"}', "--no-check", "then", "write-file", "--file-path", "out.txt"]
    direct = pflow(*words)
    content = (tmp_path / "out.txt").read_text()
    printed = pflow(*words, "--print", "--description", "What it does")
    (tmp_path / "wf.json").write_text(printed.stdout)
    (tmp_path / "out.txt").unlink()
    assert json.loads(printed.stdout)["description"] == "What it does"
    assert pflow("validate", "wf.json").stdout == "wf.json is valid\n"
    ran = pflow("run", "wf.json")
    assert (ran.stdout, ran.stderr) == (direct.stdout, "")
    assert (tmp_path / "out.txt").read_text() == content == "a ${x}a ${x}\n"


def test_printing_runs_nothing_and_reads_nothing(pflow, python, tmp_path):
    leader, follower = pty.openpty()
    done = python(*PROGRAM, "shell", "--command", "touch made", "--print", stdin=follower)
    os.close(leader)
    os.close(follower)
    assert json.loads(done.stdout)["nodes"][0]["type"] == "shell"
    assert not (tmp_path / "made").exists()
    assert pflow("trace", "list", "--json").envelope["data"] == []


def test_a_saved_chain_is_listed_and_takes_its_flags_as_inputs(pflow):
    words = ["echo", "--message", "hi", "then", "shell", "--command", "tr a-z A-Z"]
    saved = pflow(*words, "--save", "shout", "--description", "Shout", "--input", "shell.timeout")
    assert saved.exit_code == 0
    assert "run it with: pflow run shout" in saved.stdout
    (listed,) = pflow("workflow", "list", "--json").envelope["data"]
    assert (listed["name"], listed["description"]) == ("shout", "Shout")
    assert listed["inputs"]["timeout"]["description"] == "Seconds after which it is stopped, 300 by default"
    assert pflow("run", "shout", "timeout=5").stdout == "HI\n"
    assert pflow("run", "shout", "timeout=5", "message=there").stdout == "THERE\n"
    missing = pflow("run", "shout")
    assert missing.exit_code == 2
    assert "Input timeout is required" in missing.stderr


@pytest.mark.parametrize(
    ("flags", "is_data"), [("--print", True), ("--print --save a", True), ("--save a", False)]
)
def test_a_printed_workflow_is_data_whose_codes_steer_no_terminal(run, flags, is_data):
    assert run("echo", "--message", "x", *flags.split()).is_data == is_data


def test_a_saved_chain_takes_what_is_piped_in_as_the_typed_one_does(pflow):
    words = ["echo", "then", "shell", "--command", "tr a-z A-Z"]
    direct = pflow(*words, stdin="some words\n")
    assert pflow(*words, "--input", "message", "--save", "shout").exit_code == 0
    assert pflow("run", "shout", stdin="some words\n").stdout == direct.stdout == "SOME WORDS\n"
    assert pflow("run", "shout", "message=third").stdout == "THIRD\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--input", "message"], "--input is for a workflow that is saved or printed"),
        (["--description", "x"], "--description is for a workflow that is saved or printed"),
        (["--input", "nope", "--print"], "--input nope: no node has this flag"),
        (["--input", "llm.message", "--print"], "--input llm.message: no node has this flag"),
        (["--save", "Not a name"], "'Not a name' is not a valid workflow name"),
    ],
)
def test_an_option_that_cannot_be_met_is_refused(run, words, message):
    with pytest.raises(PflowError) as failure:
        run("echo", "--message", "hi", *words)
    assert failure.value.message == message
    assert failure.value.exit_code == 2


def test_a_value_is_shown_by_no_message_but_the_one_about_it(run, seen):
    for words in (["--token", "hunter2", "--nope", "x"], ["--token", "hunter2"], ["--token", "hunter2", "y"]):
        with pytest.raises(PflowError) as failure:
            run("t-note", *words)
        assert "hunter2" not in f"{failure.value} {failure.value.to_dict()}"


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ("write-file --file-path made --content b", 0, ""),
        (
            "write-file --file-path made then echo --message ${nope}",
            2,
            "${nope} in node echo names an unknown",
        ),
    ],
)
def test_standard_input_is_read_only_if_something_wants_it(python, tmp_path, words, code, told):
    reading, writing = os.pipe()  # never closed: whoever reads it waits
    try:
        done = python(*PROGRAM, *words.split(), stdin=reading)
    finally:
        os.close(reading)
        os.close(writing)
    assert (done.exit_code, "Waiting" in done.stderr, told in done.stderr) == (code, False, True)
    assert (tmp_path / "made").exists() == (code == 0)


@pytest.mark.slow
def test_whoever_waits_for_standard_input_is_told(started):
    program = started("echo", stdin=subprocess.PIPE)
    assert "< /dev/null" in program.stderr.readline()
    assert program.communicate("late\n", timeout=60)[0] == "late\n"


@pytest.mark.parametrize(
    "words", [["echo", "--message", "-"], ["echo", "--message", "x", "then", "echo", "--message", "${stdin}"]]
)
def test_a_value_that_is_piped_in_must_be_there(pflow, words):
    failed = pflow(*words)
    assert failed.exit_code == 2
    assert "--message of echo is read from standard input, but nothing is piped in" in failed.stderr
    assert pflow(*words, stdin="there").stdout == "there\n"


def test_an_alias_stands_for_its_node_and_odd_words_are_unknown(run):
    for word in ("a b", "ü", "\udcff", "../x", "é" * 300):
        with pytest.raises(PflowError) as failure:
            run(word)
        assert failure.value.kind == "not_found"


def test_bytes_that_are_no_text_do_not_crash(pflow_home):
    words = [sys.executable, "-P", *PROGRAM, "echo", "--message", b"a\xff"]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert b"Traceback" not in done.stderr
    assert b"bug" not in done.stderr
    assert done.returncode in (0, 1, 2)


WORDS = st.lists(
    st.sampled_from(
        [
            *("t-note", "echo", "t-many", "then", "--text", "--message", "--labels", "--options", "--draft"),
            *("--no-draft", "--input", "--param", "x=y", "a", "-", "${text}", "${", "$${a}", "[1]"),
            '{"a": 1}',
        ]
    ),
    max_size=9,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(words=WORDS)
def test_any_line_is_a_valid_workflow_or_refused(run, bench, seen, words):
    params = ["text: str!", "labels: list", "options: dict", "draft: bool"]
    bench.declare("t-many", params, inputs=("text", "labels"))
    with suppress(PflowError):
        report = run(*words, "--print")
        assert not [it for it in bench.host.runner.validate(report.data) if it.severity == "error"]
        assert json.loads(report.render()) == report.data


@pytest.fixture
def links(bench):
    bench.declare("t-issue", ["title: str!", "body: str!", "draft: bool"], ["url: str"], inputs=("title",))

    def read(line):
        return read_links(read_chain(line.split()), bench.host.registry, bench.host.library)

    return read


def test_what_a_node_lacks_is_left_open_while_another_is_unknown(links):
    with pytest.raises(PflowError) as failure:
        links("t-issue then nope")
    assert failure.value.exit_code == 2
    assert [problem.message for problem in failure.value.problems] == ["Unknown node type nope"]


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("t-issue --title a --body b then t-issue --draft --input draft --print", [(), ("draft",)]),
        ("t-issue --title a --body b --input t-issue.draft --input TITLE --print", [("draft", "title")]),
        ("t-issue --title a --body b --input title --input title --print", [("title",)]),
    ],
)
def test_a_flag_that_becomes_an_input_is_that_of_the_node_which_was_given_it(links, line, asked):
    assert [link.asked for link in links(line)] == asked


def test_a_saved_workflow_or_a_file_in_place_of_the_first_node_leads_to_pflow_run(
    links, bench, tmp_path, monkeypatch
):
    bench.host.library.save("daily", flow({"id": "echo"}))
    (tmp_path / "wf.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    for word in ("daily", "wf.json"):
        with pytest.raises(PflowError) as failure:
            links(word)
        assert failure.value.suggestions == (f"Did you mean pflow run {word}?",)
        assert failure.value.details == {"unknown": word}
