import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from workflow_parts import flow

from pflow_mcp_plugin.contract import Entry, Field, Interface, PflowError
from pflow_mcp_plugin.host.direct import direct_run
from pflow_mcp_plugin.host.direct.direct_run import chain_help, node_help, read_links, refuse_redirection
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


def test_values_are_piped_in_with_or_without_the_sign_of_a_file(pflow, tmp_path):
    nodes = [{"id": "say", "type": "echo", "params": {"message": "${text}"}}]
    (tmp_path / "wf.json").write_text(json.dumps({"inputs": {"text": {}}, "nodes": nodes}))
    for value in ("-", "@-"):
        assert pflow("echo", f"message={value}", stdin="there").stdout == "there\n"
        assert pflow("echo", "--params", value, stdin='{"message": "there"}').stdout == "there\n"
        assert pflow("run", "wf.json", f"text={value}", stdin="there").stdout == "there\n"


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


def help_of(*params, **interface):
    made = Interface(params=params, **interface)
    entry = Entry(node="t-send", class_name="T", module="t", interface=made, description="Send it")
    return node_help(entry, "pflow")


def test_the_help_of_a_node_lists_flags_with_types_defaults_and_what_comes_out():
    shown = help_of(
        Field(key="channel_id", type="str", required=True, description="Where to"),
        Field(key="count", type="int", description="How often", schema={"default": 3}),
        Field(key="labels", type="list", description="Which"),
        Field(key="draft", type="bool"),
        Field(key="state", type="str", schema={"enum": ["open", "closed"]}),
        outputs=[Field(key="result", type="dict", description="The answer"), Field(key="error")],
    )
    about, options = shown.split("Options of pflow:\n")
    assert [line for line in about.splitlines() if line] == [
        "Usage: pflow t-send --channel-id TEXT [--FLAG VALUE]... [then NODE ...]",
        "  Send it",
        "Flags:",
        "  --channel-id TEXT    Where to [required]",
        "  --count INTEGER      How often [default 3]",
        "  --labels JSON-LIST   Which [may be repeated]",
        "  --draft, --no-draft",
        "  --state open|closed",
        "Piped input, or the result of the node before, becomes --channel-id.",
        "Outputs:",
        "  result  (dict, the result) The answer",
        "  error   (any)",
    ]
    assert "--locked" in options
    assert options.endswith("Example: pflow t-send --channel-id 'some text'")
    assert "--OTHER VALUE" in help_of(open=True)
    state = Field(key="state", type="str", required=True, schema={"enum": ["open", "closed"]})
    assert help_of(state).endswith("Example: pflow t-send --state open")


def test_a_parameter_that_is_called_like_an_option_of_pflow_is_shown_with_param():
    shown = help_of(Field(key="save", type="str", required=True), Field(key="print", type="bool"))
    assert "--param save=TEXT" in shown.splitlines()[0]
    assert "Piped input, or the result of the node before, becomes --param save." in shown
    assert "  --param print=true|false" in shown.splitlines()
    assert shown.endswith("Example: pflow t-send --param save='some text'")


def test_long_descriptions_are_wrapped_and_it_is_said_if_the_piped_text_depends_on_the_flags():
    long = "many words " * 40 + "\x1b[31mred\nnext"
    shown = help_of(*(Field(key=key, type="str", required=True, description=long) for key in "ab"))
    assert max(map(len, shown.splitlines())) <= 100
    assert "becomes the required text that no flag sets" in shown


def test_the_general_help_names_every_option_of_pflow():
    shown = chain_help("pflow run-node")
    for option in ("--save", "--print", "--input", "--param", "--description", "--json", "--help"):
        assert option in shown


CHAIN = ["read-file", "--file-path", "a.txt"]


@pytest.fixture
def check(tmp_path, monkeypatch):
    """Check a chain whose output goes to a file; returns the words that were looked up."""

    def checked(name, flags=os.O_APPEND, words=CHAIN):
        asked = []
        descriptor = os.open(tmp_path / name, os.O_WRONLY | os.O_CREAT | flags)
        monkeypatch.setattr(direct_run, "_STDOUT", descriptor)
        try:
            note = refuse_redirection(
                words,
                "pflow",
                lambda word: asked.append(word) or word in ("echo", "a b"),
                lambda word: get_close_matches(word, ["echo", "write-file"], 3),
            )
        finally:
            os.close(descriptor)
        return asked, note and note.message

    return checked


def test_output_appended_to_a_file_with_the_name_of_a_node_is_refused(check, tmp_path):
    with pytest.raises(PflowError) as failure:
        check("echo")
    error = failure.value
    assert (error.kind, error.exit_code, error.details) == ("usage", 2, {"file": f"{tmp_path}/echo"})
    assert error.message.endswith(f"it appends the output to the file {tmp_path}/echo")
    assert error.suggestions == (
        "Write: pflow read-file ... then echo ..., or quote it: '>>'",
        f"Remove the file that the shell created: rm {tmp_path}/echo",
        f"If you meant the file: ... | cat >> {tmp_path}/echo",
    )
    (tmp_path / "echo").write_text("kept", encoding="utf-8")  # which is not to be removed then
    with pytest.raises(PflowError) as failure:
        check("echo")
    assert not any("Remove" in step for step in failure.value.suggestions)


def test_the_word_then_is_refused_as_well_and_names_are_quoted(check):
    with pytest.raises(PflowError, match="took `>>`"):
        check("then")
    with pytest.raises(PflowError) as failure:
        check("a b", words=["my node", "--x"])
    assert failure.value.suggestions[0].startswith("Write: pflow 'my node' ... then a b ...")
    assert failure.value.suggestions[2].endswith("/a b'")


def test_other_files_are_left_alone_and_nothing_is_looked_up_without_append(check):
    assert check("notes.txt") == (["notes.txt"], None)
    assert check("echo", flags=0) == ([], None)


def test_a_new_file_that_is_nearly_named_as_a_node_is_refused_and_any_other_noted(check, tmp_path):
    with pytest.raises(PflowError) as failure:
        check("write-fle")
    assert failure.value.suggestions[0].startswith("Write: pflow read-file ... then write-file ...")
    asked, note = check("results")
    assert (asked, str(tmp_path / "results") in note) == (["results"], True)
    for name in ("write-fle", "results"):
        (tmp_path / name).write_text("kept", encoding="utf-8")
        assert check(name) == ([name], None)
    assert check("write-file.txt") == (["write-file.txt"], None)


def test_a_pipe_a_terminal_a_device_and_a_closed_output_are_left_alone(monkeypatch):
    opened = [*os.pipe(), *os.openpty(), os.open(os.devnull, os.O_WRONLY | os.O_APPEND)]

    def look(descriptor):
        monkeypatch.setattr(direct_run, "_STDOUT", descriptor)
        refuse_redirection(CHAIN, "pflow", lambda _: pytest.fail("looked up"), list)

    for descriptor in opened[1:]:
        look(descriptor)
    for descriptor in opened:
        os.close(descriptor)
    look(opened[-1])
