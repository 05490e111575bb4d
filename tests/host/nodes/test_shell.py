import json
import os
import shlex
import signal
import sys
import threading
from pathlib import Path

import pytest
from ended_processes import gone
from prepared_starts import PROGRAM
from programs import until
from workflow_parts import flow, step, trace_of

from pflow_mcp_plugin.processes.process_group import shared_reaper
from pflow_mcp_plugin.processes.reaper_process import marked_processes


def shell(command, **params):
    return flow(step("sh", "shell", {"command": command, **params}))


def all_gone(file):
    """Return whether the processes whose ids are in a file, at least one, have ended."""
    numbers = [int(number) for number in file.read_text().split()]
    return bool(numbers) and gone(*numbers)


@pytest.mark.parametrize("timeout", [300, 3_000_000, 1e300])
def test_a_line_runs_in_a_shell_and_tells_what_it_wrote(bench, timeout):
    outcome = bench.run(shell("echo out; echo err >&2", timeout=timeout))
    assert outcome.outputs == {"stdout": "out\n", "stderr": "err\n", "exit_code": 0, "lines": ["out"]}


def test_a_list_of_arguments_meets_no_shell(bench):
    command = [sys.executable, "-c", "import sys; print(sys.argv[1:])", "$HOME; ls *", "${x}", 3]
    outputs = bench.run(shell(command) | {"inputs": {"x": {}}}, x={"a": "b c"}).outputs
    assert outputs["lines"] == [str(["$HOME; ls *", '{"a": "b c"}', "3"])]


def test_a_template_in_a_line_cannot_add_to_it(bench, tmp_path):
    name = "x; touch owned $(touch owned) `touch owned`"
    outcome = bench.run(shell("echo hello ${name}", cwd=str(tmp_path)) | {"inputs": {"name": {}}}, name=name)
    assert outcome.outputs["stdout"] == f"hello {name}\n"
    assert list(tmp_path.glob("owned")) == []
    [step] = trace_of(outcome)["steps"]
    shown = {"line": 'echo hello "${PFLOW_1}"', "variables": {"PFLOW_1": name}}
    assert step["params"] == {"command": shown, "cwd": str(tmp_path)}


def test_folder_variables_and_standard_input_are_the_workflows(bench, tmp_path):
    outcome = bench.run(shell("pwd; echo $WORD; cat", cwd=str(tmp_path), env={"WORD": 5}, stdin=["in"]))
    assert outcome.outputs["stdout"] == f'{tmp_path.resolve()}\n5\n["in"]'


def test_standard_input_keeps_the_bytes_of_a_files_name(bench, tmp_path):
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/a\xff")).write_text("right")
    (tmp_path / "a?").write_text("wrong")
    files = step("files", "list-files", {"folder": str(tmp_path), "pattern": "a*"})
    cat = step("sh", "shell", {"command": ["xargs", "cat"], "stdin": "${files.files[1].path}"})
    assert bench.run(flow(files, cat)).outputs["stdout"] == "right"


def test_standard_input_that_is_not_unicode_is_refused(bench):
    error = bench.run(shell("cat", stdin="a\ud83d")).error
    assert r"stdin has the character '\ud83d' at position 1, which UTF-8 cannot hold" in error.message
    assert error.ran == "not ran"


TOO_MUCH = "x" * 200_000


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"command": ["./no-such-program"]}, "Command not found: ./no-such-program"),
        ({"command": "ls", "cwd": "/no/such/folder"}, "No such file or directory (/no/such/folder)"),
        ({"command": "ls", "env": {"A": "\0"}}, "embedded null byte"),
        ({"command": ["/"]}, "/ cannot be started: Permission denied"),
        ({"command": [f"/{TOO_MUCH[:50_000]}"]}, "File name too long"),
    ],
)
def test_what_cannot_be_started_says_why(bench, params, message):
    error = bench.run(shell(**params)).error
    assert message in error.message
    assert len(error.message) < 1_000
    assert error.suggestions == (("Check cwd",) if "cwd" in params else ())


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"command": "true", "env": {"BIG": "${text}"}}, "parameter env.BIG (${text}) is 200,004 bytes"),
        ({"command": "${words}"}, "parameter command[1] (${words}) is 200,000 bytes"),
        ({"command": f"true {TOO_MUCH}"}, "parameter command is 200,005 bytes"),
        ({"command": "true ${a} ${text}"}, "the value of ${text} in parameter command is 200,008 bytes"),
        ({"command": ["true", *["y" * 100_000] * 70]}, "parameter command is 7,000,643 bytes"),
    ],
    ids=range(5),
)
def test_what_is_too_long_for_the_system_is_named(bench, params, named):
    workflow = {**shell(**params), "inputs": {"a": {}, "text": {}, "words": {}}}
    error = bench.run(workflow, a="a", text=TOO_MUCH, words=["true", TOO_MUCH]).error
    assert f"the command cannot be started: {named} long; the system takes" in error.message
    assert "pass the value as stdin" in error.suggestions[0]
    assert error.ran == "not ran"
    assert len(error.message) < 300


def test_a_command_that_takes_too_long_is_ended_with_all_it_started(bench, tmp_path):
    line = f"sleep 600 & echo $! > {tmp_path / 'pid'}; echo begun; wait"
    outcome = bench.run(shell(line, timeout=1))
    assert "it was ended after 1 s" in outcome.error.message
    [step] = trace_of(outcome)["steps"]
    assert (step["action"], step["outputs"]["stdout"]) == ("timeout", "begun\n")
    assert all_gone(tmp_path / "pid")


def test_what_a_command_leaves_running_is_ended_with_it(bench, tmp_path):
    line = f"sleep 600 >/dev/null 2>&1 & echo $! > {tmp_path / 'pid'}"
    assert bench.run(shell(line)).success
    assert all_gone(tmp_path / "pid")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after", "error"),
    [("trap '' TERM; ", "", "None"), ("", "; echo why >&2; exit 3", "exit code 3: why")],
)
def test_a_background_process_that_keeps_stdout_open_ends_with_the_command(
    bench, tmp_path, before, after, error
):
    line = f"{before}sleep 600 & echo $! > {tmp_path / 'pid'}; echo hi{after}"
    outcome = bench.run(shell(line, timeout=60))
    assert error in str(outcome.error)
    assert trace_of(outcome)["steps"][0]["outputs"]["stdout"] == "hi\n"
    assert all_gone(tmp_path / "pid")


def test_what_a_shell_wrote_last_is_read_although_its_pipes_stay_open(bench):
    line = "sleep 600 & head -c 60000 /dev/zero | tr '\\0' x; exec echo end"
    assert bench.run(shell(line, timeout=60)).outputs["stdout"] == "x" * 60_000 + "end\n"


MUCH = "line\n" * 400_000  # larger than a pipe, and longer than an argument


@pytest.mark.parametrize(
    ("line", "given", "written"),
    [("exec 0<&-; echo done", "x" * 1_000_000, "done\n"), ("cat", MUCH, MUCH)],
    ids=["read by nobody", "larger than a pipe"],
)
def test_input_passes_whatever_its_size_and_holds_no_command_up(bench, line, given, written):
    assert bench.run(shell(line, stdin=given, timeout=60)).outputs["stdout"] == written


def test_a_command_leaves_no_signal_handler_descriptor_thread_or_file(bench, pflow_home):
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)]
    bench.run(shell("true"))
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)] == handlers
    before = sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208  # the folder itself is open meanwhile
    assert bench.run(shell("sleep 600 & yes | head -c 3000000; echo err >&2", timeout=60)).success
    assert sorted(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    until(lambda: not any(thread.name.startswith("batch-") for thread in threading.enumerate()))
    assert list(pflow_home.glob("state/artifacts/*/shell-*")) == []


@pytest.mark.parametrize(("stream", "into"), [("stdout", ""), ("stderr", " >&2")])
def test_a_long_output_is_passed_on_whole(bench, pflow_home, stream, into):
    line = f"(echo first; yes middle | head -c 20000000; echo last){into}"
    outputs = bench.run(shell(line, timeout=60)).outputs
    whole = outputs[stream]
    assert (len(whole), whole[:13], whole[-5:]) == (20_000_011, "first\nmiddle\n", "last\n")
    assert ("lines" in outputs) == (stream == "stderr")
    assert list(pflow_home.glob("state/artifacts/*/shell-*")) == []


def test_lines_are_given_of_up_to_8_mib_and_a_step_that_reads_more_is_not_misled(bench):
    line = "printf '%08388607d\\n' 0"
    assert [len(it) for it in bench.run(shell(line, timeout=60)).outputs["lines"]] == [8_388_607]
    workflow = shell(f"{line}; echo", timeout=60)
    workflow["nodes"].append(step("then", "echo", {"message": "x"}))
    for condition, read in (("sh.lines", "lines"), ("sh.json && sh.lines[0]", "json and lines")):
        workflow["nodes"][1]["when"] = condition
        message = f"its stdout is longer than 8 MiB, so a later step cannot read its {read}"
        assert message in bench.run(workflow).error.message
    workflow["nodes"][1]["when"] = "length(sh.stdout) > 9"
    assert bench.run(workflow).success


@pytest.mark.parametrize(("stream", "into"), [("stdout", ""), ("stderr", " >&2")])
def test_output_that_is_not_utf8_is_warned_of(bench, stream, into):
    assert bench.run(shell(rf"printf 'caf\351'{into}")).outputs[stream] == "caf\ufffd"
    [warning] = bench.warnings
    assert warning.message == f"Node sh: bytes of its {stream} are not UTF-8, and became U+FFFD"


@pytest.mark.parametrize(("stream", "into"), [("stdout", ""), ("stderr", " >&2")])
def test_a_command_that_writes_too_much_is_ended(bench, tmp_path, stream, into):
    line = f"echo $$ > {tmp_path / 'pid'}; exec yes{into}"
    outcome = bench.run(shell(line, timeout=60, max_output_mb=1))
    assert f"it was ended, as its {stream} is longer than 1 MiB" in outcome.error.message
    assert "raise max_output_mb" in outcome.error.suggestions[0]
    assert all_gone(tmp_path / "pid")


MEASURED = """
import re, sys
from pflow_mcp_plugin.__main__ import main
code = main()
print(code, re.search(r"VmHWM:\\s+([0-9]+)", open("/proc/self/status").read())[1])
"""


@pytest.mark.slow
def test_a_flood_ends_in_bounded_memory(bench, python, tmp_path):
    (tmp_path / "wf.json").write_text(json.dumps(shell("exec yes", max_output_mb=64)))
    done = python("-c", MEASURED, "run", "wf.json")
    assert "it was ended, as its stdout is longer than 64 MiB" in done.stderr
    code, kibibytes = map(int, done.stdout.split())
    assert (code, kibibytes < 4 * 64 * 1_024) == (1, True)
    (most,) = (it for it in bench.host.registry.get("shell").interface.params if it.key == "max_output_mb")
    assert "256 by default" in most.description


@pytest.mark.parametrize(
    ("key", "value", "told", "unit"),
    [
        ("timeout", 0, "must be more than 0", " seconds, got"),
        ("max_output_mb", 0, "must be more than 0", " MiB, got 0"),
        ("command", [], "command is empty", ""),
        ("env", {"B=": "x"}, "the name 'B=' in env cannot be that of a variable", ""),
    ],
)
def test_a_command_that_cannot_run_is_not_started_and_refused_before_where_its_params_are_known(
    bench, tmp_path, key, value, told, unit
):
    params = {"command": ["touch", str(tmp_path / "begun")], key: value}
    [problem] = bench.host.runner.validate(shell(**params))
    assert problem.path == f"$.nodes[0].params.{key}"
    assert told in problem.message
    late = step("late", "transform", {"expression": f"`{json.dumps(value)}`"})
    error = bench.run(flow(late, step("sh", "shell", {**params, key: "${late.result}"}))).error
    assert told + unit in error.message
    assert error.ran == "not ran"
    assert not (tmp_path / "begun").exists()


def sleeping(tmp_path, batch=None):
    """Write a workflow whose command prints its process id, opens a pipe and sleeps; return the pipe."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    workflow = shell(f"echo $$ >> {tmp_path}/pid; echo > {pipe}; exec sleep 600")
    workflow["nodes"][0] |= {"batch": batch} if batch else {}
    (tmp_path / "wf.json").write_text(json.dumps(workflow))
    return pipe


@pytest.mark.parametrize(
    ("number", "batch"),
    [
        (signal.SIGINT, None),
        (signal.SIGTERM, {"items": [1, 2], "parallel": True}),
        (signal.SIGHUP, None),
    ],
)
def test_a_signal_that_ends_the_run_ends_the_command(started, tmp_path, batch, number, signalled):
    pipe = sleeping(tmp_path, batch)
    program = started("run", "wf.json", "--json")
    pipe.read_text()  # returns when the command has begun
    stdout, _ = signalled(program, number)
    assert program.returncode == 128 + number
    envelope = json.loads(stdout)
    assert envelope["error"]["type"] == "interrupted"
    assert json.loads(Path(envelope["trace_path"]).read_text())["success"] is False
    assert all_gone(tmp_path / "pid")


def test_a_hangup_that_is_ignored_stays_ignored(started, tmp_path):
    pipe = sleeping(tmp_path)
    program = started("run", "wf.json", program=("nohup", *PROGRAM))
    pipe.read_text()
    program.send_signal(signal.SIGHUP)
    program.send_signal(signal.SIGTERM)
    program.communicate(timeout=60)
    assert program.returncode == 128 + signal.SIGTERM


@pytest.mark.parametrize(
    ("written", "lines", "parsed"),
    [
        ("a\\r\\nb\\n\\nc", ["a", "b", "", "c"], ...),
        ("", [], ...),
        ('{"n": [1]}\\n', ['{"n": [1]}'], {"n": [1]}),
        ("null\n", ["null"], None),
        (f'"{"x" * 5_000}"', [f'"{"x" * 5_000}"'], "x" * 5_000),
        ("NaN", ["NaN"], ...),
        ('{"n": 1, "n": 2}', ['{"n": 1, "n": 2}'], ...),
    ],
)
def test_stdout_is_there_in_lines_too_and_as_json_if_it_is(bench, written, lines, parsed):
    outputs = bench.run(shell(["printf", written])).outputs
    assert outputs["lines"] == lines
    assert outputs.get("json", ...) == parsed


@pytest.mark.parametrize(
    ("written", "reason"),
    [('{"a": 1, "a": 2}', "duplicate"), ("[1e999]", "too large"), ("[NaN]", "not finite")],
)
def test_json_that_would_lose_something_is_not_passed_on(bench, written, reason):
    workflow = shell(["printf", written])
    assert bench.run(workflow).success
    error = bench.run(workflow | {"outputs": {"found": "${sh.json}"}}).error
    assert "its stdout cannot be read as JSON, as a later step does: " in error.message
    assert reason in error.message
    assert bench.run(workflow | {"outputs": {"found": "${sh.stdout}"}}).success


@pytest.mark.parametrize("is_line", [True, False])
def test_the_memory_of_each_process_is_limited_if_that_is_asked_for(bench, is_line):
    program = "x = bytearray(8 << 30)" if is_line else "x = []\nwhile True: x.append('x' * 100_000)"
    command = [sys.executable, "-c", program]
    given = " ".join(map(shlex.quote, command)) + " || exit 7" if is_line else command
    error = bench.run(shell(given, memory_mb=200, timeout=60)).error
    assert f"ended with exit code {7 if is_line else 1}: " in error.message
    assert "MemoryError" in error.message
    assert error.suggestions == ("If it ran out of memory, raise memory_mb",)
    assert bench.run(shell("echo ${word}", memory_mb=200) | {"inputs": {"word": {}}}, word="a b").success


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_row_64_nothing_that_a_command_started_outlives_a_pflow_that_is_killed(leaving, end_run, number):
    end_run(shell([sys.executable, "-c", leaving.code(600)]), leaving.pids, number)
    assert leaving.all_gone()


@pytest.mark.slow
def test_row_64_what_left_the_session_of_a_command_ends_with_the_run(leaving, bench):
    shared_reaper.acquire()  # another run of this program still needs it
    try:
        outcome = bench.run(shell([sys.executable, "-c", leaving.code(0)]))
        assert outcome.error is None
        assert leaving.all_gone()
    finally:
        shared_reaper.release()
    assert marked_processes(f"{os.getpid()}-") == []
