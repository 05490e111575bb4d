"""However a run ends in the middle, nothing outlives it; Ctrl-C ends it soon, with 130, in plain words."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from programs import script_server, until

from pflow_mcp_plugin.processes.reaper_process import marked_processes

pytestmark = pytest.mark.usefixtures("no_leftovers")
FAULTY = Path(__file__).parents[1] / "faults" / "stdio_server.py"
_GONE_SECONDS = 2
_FAMILY = 4  # the server, a child, a grandchild, a daemon

LOCKED = """
import importlib._bootstrap, sys, threading, time
from pflow_mcp_plugin.__main__ import program

def hold():
    lock = importlib._bootstrap._get_module_lock("mcp.client.session")
    lock.acquire()
    held.set()
    time.sleep(1000)

held = threading.Event()
threading.Thread(target=hold, daemon=True).start()
held.wait()
sys.exit(program())
"""

READY = """
import sys
from pflow_mcp_plugin.__main__ import program
print("ready", file=sys.stderr, flush=True)
sys.exit(program())
"""

LAST = """
import atexit, os, signal, sys
atexit.register(lambda: os._exit(0 if signal.getsignal(signal.SIGINT) is signal.SIG_IGN else 1))
from pflow_mcp_plugin.__main__ import program
sys.exit(program())
"""
"""What runs after all else that ends the program; then Python restores what Ctrl-C does by default."""


@pytest.fixture
def one_call(configured, workflow):
    configured("odd", script_server(FAULTY, "Plain"))
    return workflow(("a", "mcp-odd-act", {"value": "x"}))


@pytest.fixture
def code(started):
    """Start code in Python, in a session of its own."""
    return lambda text, *words: started(
        *words, program=(sys.executable, "-P", "-c", text), start_new_session=True
    )


def test_an_import_lock_that_is_never_released_does_not_keep_it_from_ending(one_call, code):
    run = code(LOCKED, "run", one_call)
    until(lambda: marked_processes(f"{run.pid}-"))
    until(lambda: is_idle(run.pid))
    begun = time.monotonic()
    run.send_signal(signal.SIGINT)
    try:
        run.wait(2.5)
    except subprocess.TimeoutExpired:
        run.send_signal(signal.SIGINT)
    _, said = run.communicate(timeout=20)
    assert time.monotonic() - begun < 5
    assert run.returncode == 130
    assert "Traceback" not in said
    assert not marked_processes(f"{run.pid}-")


def test_ctrl_c_while_python_itself_ends_changes_nothing(code):
    assert code(LAST, "--version").wait(20) == 0


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_no_moment_of_a_run_is_a_bad_one(one_call, code):
    """From where our code begins; what Python prints before is its own."""
    ends = set()
    for moment in range(10):
        run = code(READY, "run", one_call, "--no-trace")
        assert run.stderr.readline() == "ready\n"
        time.sleep(0.001 + moment * 0.08)
        run.send_signal(signal.SIGINT)
        _, said = run.communicate(timeout=20)
        if 'File "<string>", line 4' in said:
            continue  # in the line that says it is ready, which is not our code
        ends.add(run.returncode)
        assert run.returncode in (0, 130), said
        assert "Traceback" not in said
        assert not marked_processes(f"{run.pid}-")
    assert 130 in ends


def is_idle(pid):
    """Whether a process does nothing for half a second: all its threads wait."""
    before = cpu_ticks(pid)
    time.sleep(0.5)
    return cpu_ticks(pid) - before < 2


def cpu_ticks(pid):
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _reapers(host: int) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"%d" % host in command and any(part.endswith(b"reaper_process.py") for part in command):
            found.append(path.parent.name)
    return found


@pytest.fixture
def hanging(configured, started, workflow, tmp_path):
    """Start `pflow run` and return it when its server, with all its family, has got the call."""
    log = tmp_path / "log"
    for scenario in ("Plain", "HangsWithAFamily"):  # one stands in for the other, which nobody is to approve
        table = script_server(FAULTY, scenario, env={"LOG": str(log)}, trust="auto")
        configured("odd", table, sync=scenario == "Plain")
    run = started("run", workflow(("a", "mcp-odd-act", {"value": "x"})), start_new_session=True)
    until(lambda: "call x" in log.read_text(encoding="utf-8"), 20)
    until(lambda: len(marked_processes(f"{run.pid}-")) == _FAMILY, 5)
    assert len(_reapers(run.pid)) == 1
    return run, log


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_two_seconds_after_a_run_is_killed_no_server_child_daemon_or_reaper_is_left(hanging, number):
    run, _ = hanging
    run.send_signal(number)
    run.wait(5)
    until(lambda: not marked_processes(f"{run.pid}-") and not _reapers(run.pid), _GONE_SECONDS)


def test_ctrl_c_tells_the_server_and_ends_the_run_with_130(hanging, signalled):
    run, log = hanging
    _, said = signalled(run, signal.SIGINT)
    assert run.returncode == 130
    assert "Traceback" not in said
    assert "cancelled" in log.read_text(encoding="utf-8").splitlines()
    assert not marked_processes(f"{run.pid}-")
