"""Ctrl-C at any moment of a program: it ends soon, with 130, in plain words, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pflow_mcp_plugin.processes.reaper_process import marked_processes

pytestmark = pytest.mark.usefixtures("no_leftovers")

LOCKED = """
import importlib._bootstrap, sys, threading, time
from pflow_mcp_plugin.__main__ import program

def hold():
    lock = importlib._bootstrap._get_module_lock({module!r})
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


@pytest.fixture
def demo_workflow(pflow, workflow):
    assert pflow("mcp", "demo").exit_code == 0
    return workflow(("a", "mcp-demo-echo", {"value": "x"}))


@pytest.fixture
def started(pflow_home, hosts):
    """Start a program of Python's; it is killed at the end of the test, if need be."""
    running = []

    def started(*arguments):
        program = subprocess.Popen(
            [sys.executable, "-P", *map(str, arguments)],
            env={**os.environ, "PFLOW_HOME": str(pflow_home)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        hosts.append(program.pid)
        running.append(program)
        return program

    yield started
    for program in running:
        program.kill()
        program.communicate()


@pytest.mark.parametrize("module", ["mcp", "anyio._backends._asyncio"])
def test_an_import_lock_that_is_never_released_does_not_keep_it_from_ending(demo_workflow, started, module):
    run = started("-c", LOCKED.format(module=module), "run", demo_workflow)
    wait_until(lambda: marked_processes(f"{run.pid}-"))
    wait_until(lambda: is_idle(run.pid))
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


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_no_moment_of_a_run_is_a_bad_one(demo_workflow, started):
    """From where our code begins; what Python prints before is its own."""
    ends = set()
    for moment in range(60):
        run = started("-c", READY, "run", demo_workflow, "--no-trace")
        assert run.stderr.readline() == "ready\n"
        time.sleep(0.001 + moment * 0.015)
        run.send_signal(signal.SIGINT)
        _, said = run.communicate(timeout=20)
        if 'File "<string>", line 4' in said:
            continue  # in the line that says it is ready, which is not our code
        ends.add(run.returncode)
        assert run.returncode in (0, 130), said
        assert "Traceback" not in said
        assert not marked_processes(f"{run.pid}-")
    assert 130 in ends


def wait_until(reached):
    deadline = time.monotonic() + 20
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_idle(pid):
    """Whether a process does nothing for half a second: all its threads wait."""
    before = cpu_ticks(pid)
    time.sleep(0.5)
    return cpu_ticks(pid) - before < 2


def cpu_ticks(pid):
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
