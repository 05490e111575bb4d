import os
import signal
import sys
from pathlib import Path

import pytest
from workflow_parts import flow, step

from pflow_mcp_plugin.contract import PflowError

UV = Path(sys.executable).with_name("uv")


def node(code, **params):
    return flow(step("py", "python", {"code": code, **params}))


def with_input(name, code, **params):
    """A workflow with one input, which its code gets by the same name."""
    return node(code, inputs={name: f"${{{name}}}"}, **params) | {"inputs": {name: {}}}


@pytest.fixture
def ran(one):
    """Run code; return its outputs."""

    def run(code, **params):
        outcome = one("python", code=code, **params)
        assert outcome.error is None, outcome.error
        return outcome.outputs

    return run


@pytest.fixture
def failed(refused):
    """Run code that fails; return the error."""
    return lambda code, **params: refused("python", code=code, **params)


def test_inputs_come_in_by_name_and_result_and_text_go_out(ran):
    code = "import sys\nprint('out', a)\nprint('err', file=sys.stderr)\nresult = {'sum': a + len(b), 'b': b}"
    assert ran(code, inputs={"a": 2, "b": [None, 1.5, "x"]}) == {
        "result": {"sum": 5, "b": [None, 1.5, "x"]},
        "stdout": "out 2\n",
        "stderr": "err\n",
    }


@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("x = 1", None),
        ("result = (1, (2,))", [1, [2]]),
        ("result = __name__ == '__main__'", True),
        ("import sys\nresult = sys.stdin.read()", ""),
        ("if True:\r\n    result = 1\r\n", 1),
        ("result = ascii(chr(0xd83d)), chr(0xd83d) + chr(0xdc00)", ["'\\ud83d'", "\U0001f400"]),
        ("import sys\nresult = 1\nsys.exit()", 1),
        ("result = '$${HOME}' + \"$x {{x}}\"", "${HOME}$x {{x}}"),
        ("import pickle\nclass A: pass\nresult = type(pickle.loads(pickle.dumps(A()))).__name__", "A"),
        ("import os\nresult = 'child'\nif os.fork():\n    os.wait()\n    result = 'parent'", "parent"),
        ("import sys\nresult = [sys.flags.isolated, sys.flags.utf8_mode, '' in sys.path]", [1, 1, False]),
    ],
    ids=range(11),
)
def test_what_code_may_be(ran, code, result):
    assert ran(code)["result"] == result


def test_text_that_is_not_utf8_is_replaced(ran, bench):
    code = "import os, sys\nos.write(1, b'\\xff\\n')\nsys.stdout.reconfigure(errors='replace')\n"
    assert ran(f"{code}print('\\ud800')")["stdout"] == "\ufffd\n?\n"
    assert ["stdout are not UTF-8" in warning.message for warning in bench.warnings] == [True]


@pytest.mark.parametrize(
    "text", ['"); import os; os.abort() #', "'''\nresult = 9", "${a}", "$${a}", "\\", "{a}"]
)
def test_an_input_that_looks_like_code_is_a_value(bench, text):
    assert bench.run(with_input("a", "result = a"), a=text).outputs["result"] == text


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def f():\n    return 1 / 0\n\n\nf()", "line 2 of the code: ZeroDivisionError: division by zero"),
        ("import json\njson.loads('{')", "line 2 of the code: JSONDecodeError: Expecting property name"),
        ("\n\nexec('1 +')", "line 3 of the code: SyntaxError: invalid syntax"),
        ("import sys\nsys.exit('no rows')", "line 2 of the code: sys.exit('no rows')"),
        ("raise KeyboardInterrupt", "line 1 of the code: KeyboardInterrupt"),
        ("def f(): f()\nf()", "line 1 of the code: RecursionError: maximum recursion depth exceeded"),
        ("class E(Exception):\n    def __str__(self): 1 / 0\nraise E", "line 3 of the code: E"),
        ("import os\nos._exit(0)", "the code ended with exit code 0, before its result was there"),
        ("import atexit, os\nresult = 1\natexit.register(os._exit, 4)", "the code ended with exit code 4"),
        ("print('\\ud800')", "line 1 of the code: UnicodeEncodeError"),
        ("result = {'a': [1, {2}]}", "result['a'][1] is of type set, which JSON does not have"),
        ("result = [float('nan')]", "result[0] is nan"),
        ("result = {1: 2}", "result has the key 1; in JSON a key is a string"),
        ("result = []\nresult.append(result)", "is nested more than 100 levels deep"),
        (
            "result = 10**5000",
            "result cannot be written as JSON: ValueError: Exceeds the limit (4300 digits)",
        ),
    ],
    ids=range(15),
)
def test_a_failure_names_its_line_and_cause(failed, code, message):
    error = failed(code)
    assert message in error.message
    assert error.ran == "ran"
    assert "python_driver" not in error.details["stderr"]


@pytest.mark.parametrize("text", ["5\\n", "{\\n", "[]", "\\xff\\n"])
def test_what_the_code_writes_to_every_descriptor_is_no_result(failed, text):
    code = f"import os\nfor fd in range(3, 100):\n    try: os.write(fd, b'{text}')\n    except OSError: pass"
    assert "before its result was there" in failed(code).message


def test_code_that_kills_what_watches_it_ends_too(failed):
    error = failed("import os, time\nos.kill(os.getppid(), 9)\ntime.sleep(600)", timeout=50)
    assert "the code was ended by signal 9" in error.message


def test_details_have_the_exit_code_and_a_traceback_that_begins_at_the_code(failed):
    error = failed("def f(x):\n    return x['a']  # here\n\nf({})")
    begin = 'Traceback (most recent call last):\n  File "<code>", line 4, in <module>'
    assert error.details["stderr"].startswith(begin)
    assert "return x['a']  # here" in error.details["stderr"]
    assert (error.details["line"], error.details["type"]) == (2, "KeyError")
    assert failed("import sys\nsys.exit(3)").details["exit_code"] == 3
    assert failed("import os\nos.kill(os.getpid(), 9)").details["exit_code"] == -9


def test_a_value_that_is_missing_is_to_be_an_input_and_a_package_a_requirement(failed):
    assert failed("print(rows)").suggestions == ("If rows is a value of the workflow, pass it in inputs",)
    [step] = failed("import no_such_package.part").suggestions
    assert step.startswith("Add the package that has no_such_package to requirements")


@pytest.mark.parametrize(
    ("params", "path", "message"),
    [
        ({"code": "x = 1\ny = '${item}'"}, "code", "(line 2): no value may become part of code"),
        ({"code": "${text}"}, "code", "${text} is in code (line 1)"),
        ({"code": "x", "requirements": ["six", "${text}"]}, "requirements[1]", "${text} is in code (line 1)"),
        ({"code": "x = 1\ny = (\n"}, "code", "Line 2 of the code: '(' was never closed"),
        ({"code": "x = 1\0"}, "code", "null bytes"),
        ({"code": "x = '\ud800'"}, "code", "surrogates not allowed"),
        ({"code": "(" * 500}, "code", "too many nested parentheses"),
        ({"code": " \n"}, "code", "The code is empty"),
        ({"code": "x", "inputs": {"class": 1}}, "inputs", "the input 'class' cannot be"),
        ({"code": "x", "inputs": {"__builtins__": {}}}, "inputs", "the input '__builtins__' cannot be"),
        ({"code": "x", "env": {"B=": "1"}}, "env", "the name 'B=' in env cannot be that of a variable"),
    ],
    ids=range(11),
)
def test_a_mistake_in_the_code_is_found_before_the_run(bench, params, path, message):
    workflow = {**node(**params), "inputs": {"text": {"type": "str"}}}
    with pytest.raises(PflowError) as raised:
        bench.run(workflow, text="x = 1")
    assert message in str(raised.value)
    assert f"$.nodes[0].params.{path}" in str(raised.value)


@pytest.mark.parametrize("how", ["permissive", "batch", "sub-workflow"])
def test_no_way_makes_a_value_a_part_of_the_code(bench, tmp_path, how):
    owned = tmp_path / "owned"
    evil = f"open({str(owned)!r}, 'w')"
    workflow = node("x = 1\n${evil}") | {"inputs": {"evil": {"type": "str"}}}
    if how == "permissive":
        workflow["template_resolution_mode"] = "permissive"
    elif how == "batch":
        workflow["nodes"][0] |= {"batch": {"items": [evil], "as": "each"}, "params": {"code": "${each}"}}
    else:
        workflow["nodes"] = [step("sub", "workflow", {"workflow": workflow.copy(), "evil": evil})]
    with pytest.raises(PflowError, match="no value may become part of code"):
        bench.run(workflow, evil=evil)
    assert not owned.exists()


def test_code_is_never_taken_from_the_shared_store(bench):
    workflow = flow(step("py", "python", {}), inputs={"code": {"type": "str"}})
    assert "code is empty" in bench.run(workflow, code="x = 1").error.message


def test_code_is_never_piped_in(pflow, tmp_path):
    evil = f"open({str(tmp_path / 'owned')!r}, 'w')"
    assert pflow("echo", "--message", evil, "then", "python").exit_code == 2
    ran = pflow("python", "--code", "-", stdin=evil)
    assert ran.exit_code == 2
    assert "code is never read from a pipe" in ran.stderr
    assert not (tmp_path / "owned").exists()
    assert pflow("python", "--code", "result = a * 2", "--inputs", '{"a": 21}').stdout.strip() == "42"


def test_the_code_sees_no_variable_of_pflow_but_those_it_needs(ran, monkeypatch):
    monkeypatch.setenv("API_TOKEN", "secret-token-value")
    monkeypatch.setenv("PYTHONSTARTUP", "/no/such")
    monkeypatch.setenv("PYTHONPATH", "/no/such")
    seen = ran("import os\nresult = dict(os.environ)", env={"MINE": 5, "TERM": "x"})["result"]
    assert (seen["MINE"], seen["TERM"], seen["PATH"]) == ("5", "x", os.environ["PATH"])
    assert not [name for name in seen if name.startswith(("API", "PFLOW_H", "PYTHONS", "PYTHONPATH"))]


def test_a_secret_is_redacted_in_the_message_and_the_trace(bench):
    secret = "sk-" + "Zq7xK2mP9wL4vB8nT3cR"
    code = "import sys\nsys.stderr.write('x' * 1990 + a)\nraise ValueError(a)"
    outcome = bench.run(with_input("a", code) | {"inputs": {"a": {"secret": True}}}, a=secret)
    assert "ValueError" in outcome.error.message
    assert secret not in outcome.error.message
    assert secret not in outcome.trace_path.read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "params"),
    [
        ("x = bytearray(8 << 30)", {}),
        ("x = []\nwhile True: x = [x, 1, {}]", {"memory_mb": 100}),
        ("result = 'x' * (150 << 20)", {"memory_mb": 200}),
        ("x = len(a)", {"memory_mb": 60, "inputs": {"a": "x" * 20_000_000}}),
    ],
    ids=range(4),
)
def test_code_that_needs_too_much_memory_says_so(failed, code, params):
    error = failed(code, **params)
    assert "memory_mb" in error.message + "".join(error.suggestions)


def test_each_process_of_the_code_is_limited(ran):
    program = "try:\n    bytearray(300 << 20)\nexcept MemoryError:\n    print('no')"
    code = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {program!r}], check=True)"
    assert ran(code, memory_mb=250)["stdout"] == "no\n"
    assert ran(code, memory_mb=600)["stdout"] == ""


@pytest.mark.slow
def test_a_result_or_output_that_is_too_long_is_refused_and_a_long_one_is_whole(failed, ran):
    assert "as its result is longer than 1 MiB" in failed("result = 'x' * 3_000_000", max_output_mb=1).message
    flood = failed("import os\nwhile True: os.write(1, b'x' * 65536)", max_output_mb=3).message
    assert "as its stdout is longer than 3 MiB" in flood
    outputs = ran("print('x' * 20_000_000)\nresult = 'y' * 5_000_000", memory_mb=2000)
    assert (len(outputs["stdout"]), len(outputs["result"])) == (20_000_001, 5_000_000)


def test_inputs_of_any_size_come_in_and_are_not_visible_to_others(bench):
    code = "import os\nresult = [len(a), a[-1]]\nprint(open(f'/proc/{os.getppid()}/cmdline').read())"
    outputs = bench.run(with_input("a", code), a="secret" * 8_500_000).outputs
    assert outputs["result"] == [51_000_000, "t"]
    assert "secret" not in outputs["stdout"]


def test_deep_inputs_come_in_or_are_refused(bench):
    def nested(depth):
        return [nested(depth - 1)] if depth else 1

    workflow = with_input("a", "result = a")
    assert bench.run(workflow, a=nested(90)).outputs["result"] == nested(90)
    assert "100 levels" in bench.run(workflow, a=nested(110)).error.message


def test_a_run_leaves_no_descriptor(bench):
    bench.run(node("x = 1"))
    before = sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208  # the folder itself is open meanwhile
    bench.run(node("import subprocess\nsubprocess.Popen(['sleep', '600'])"))
    bench.run(node("x = 1", cwd="/no/such/folder"))
    assert sorted(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"cwd": "/no/such/folder"}, "Python cannot be started: No such file or directory (/no/such/folder)"),
        ({"env": {"A": "\0"}}, "embedded null byte"),
    ],
)
def test_what_cannot_be_started_says_why(failed, params, message):
    error = failed("x = 1", **params)
    assert message in error.message
    assert error.ran == "not ran"


@pytest.mark.slow
@pytest.mark.parametrize(("seconds", "timeout", "error"), [(0, 30, "None"), (600, 3, "was ended after 3 s")])
def test_nothing_that_the_code_starts_outlives_it(bench, leaving, seconds, timeout, error):
    outcome = bench.run(node(leaving.code(seconds, bare=True), timeout=timeout))
    assert error in str(outcome.error)
    assert leaving.all_gone(6)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_that_the_code_starts_outlives_a_pflow_that_ends(end_run, leaving, number):
    end_run(node(leaving.code(600, bare=True), timeout=100), leaving.pids, number)
    assert leaving.all_gone(6)


def test_a_killed_run_asks_before_the_code_runs_again(pflow, end_run, tmp_path):
    file = tmp_path / "begun"
    code = "open(file, 'a').write('x')\nimport time\ntime.sleep(600)"
    end_run(node(code, inputs={"file": str(file)}, timeout=100), file, signal.SIGKILL)
    again = pflow("resume", "--json")
    assert (again.exit_code, file.read_text()) == (4, "x"), again.stdout + again.stderr


def test_requirements_need_uv(bench, monkeypatch, tmp_path):
    if UV.exists():
        monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PflowError, match="Command not found: uv") as raised:
        bench.run(node("import six", requirements=["six"]))
    assert raised.value.suggestions[0].startswith("Install uv")


@pytest.fixture
def wheel(tmp_path):
    """A package that nobody has: a wheel, so that no registry is asked."""
    import zipfile

    path = tmp_path / "pflowtrial-1.0-py3-none-any.whl"
    info = "pflowtrial-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("pflowtrial.py", "answer = 42\n")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: pflowtrial\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


@pytest.mark.slow
@pytest.mark.skipif(not UV.exists(), reason="a server is not available: uv")
def test_requirements_are_installed_by_uv(bench, ran, failed, wheel, tmp_path):
    variables = {"UV_CACHE_DIR": str(tmp_path / "cache"), "UV_OFFLINE": "1"}
    params = {"requirements": [str(wheel)], "env": variables}
    code = "import pflowtrial, sys\nresult = [pflowtrial.answer, a, sys.version_info[1]]"
    assert ran(code, inputs={"a": 1}, **params)["result"] == [42, 1, sys.version_info[1]]
    assert failed("import sys\nsys.exit(3)", **params).details["exit_code"] == 3
    assert "after 1 s" in failed("while True: pass", timeout=1, **params).message
    assert "memory_mb" in failed("x = bytearray(8 << 30)", **params).message
    error = failed("import pflowtrial", **{**params, "requirements": ["no-such-package-of-pflow"]})
    assert ("uv cannot run the code: " in error.message, error.ran) == (True, "not ran")
    assert "no-such-package-of-pflow" in error.message
    assert "uv cannot run the code" in failed("x = 1", **{**params, "requirements": ["--help"]}).message
