"""The reaper ends what a host leaves behind, and waits for a child that the host was just starting."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pflow_mcp_plugin.processes import reaper_process
from pflow_mcp_plugin.processes.process_group import Reaper

TOLD = """
import importlib.util, select, sys
from types import SimpleNamespace
spec = importlib.util.spec_from_file_location("reaper", sys.argv.pop(1))
reaper = importlib.util.module_from_spec(spec)
spec.loader.exec_module(reaper)
reaper._LAST_CHILD = 60
def told(*arguments):
    print(f"waits for {len(arguments[0])}, seconds: {arguments[3]}", flush=True)
    return select.select(*arguments)
reaper.select = SimpleNamespace(select=told)
reaper.main()
"""
"""A reaper that has the patience for a slow machine, and says what it waits for."""
CHILD = """
import os, sys
os.set_inheritable(int(sys.argv[2]), False)
sys.stdin.read(1)
os.execve("/bin/sleep", ["sleep", "600"], {"PFLOW_RUN_MARKER": sys.argv[1] + "-server"})
"""
"""What a host has forked; it becomes a server once it is told to, and holds the lifeline until then."""


def test_a_child_that_a_dead_host_was_just_starting_is_waited_for_and_ended_whatever_signals_come():
    marker = f"{os.getpid()}-{os.urandom(8).hex()}"
    host = subprocess.Popen(["sleep", "600"])
    reading, lifeline = os.pipe()
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, marker, str(lifeline)], stdin=subprocess.PIPE, pass_fds=[lifeline]
    )
    script = Path(reaper_process.__file__)
    reaper = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", TOLD, *map(str, (script, reading, host.pid, marker))],
        stdout=subprocess.PIPE,
        pass_fds=[reading],
        encoding="utf-8",
    )
    os.close(reading)
    os.close(lifeline)
    try:
        assert reaper.stdout.readline() == "waits for 2, seconds: None\n"
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            reaper.send_signal(number)  # as a terminal that is closed, or a shutdown
        host.kill()
        host.wait()
        assert reaper.stdout.readline() == "waits for 1, seconds: 60\n"
        child.communicate(b"x", timeout=60)
        assert child.returncode == -signal.SIGTERM
        assert reaper.wait(60) == 0
    finally:
        for process in (host, child, reaper):
            process.kill()
            process.wait()
        reaper.stdout.close()


def test_a_reaper_that_cannot_be_started_leaves_no_descriptor_open(monkeypatch, tmp_path):
    before = sorted(Path("/dev/fd").iterdir())
    monkeypatch.setattr(sys, "executable", str(tmp_path / "gone"))
    with pytest.raises(FileNotFoundError):
        Reaper()
    assert sorted(Path("/dev/fd").iterdir()) == before
