"""Servers that a package runner installs first, which may take longer than a start."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from programs import until

from pflow_mcp_plugin.client import Pool, deadlines
from pflow_mcp_plugin.errors import ConnectionFailed
from pflow_mcp_plugin.exchange import Launch
from pflow_mcp_plugin.types import Server

pytestmark = pytest.mark.programs

# As npm does: SIGTERM undoes what is installed so far, which takes longer than a server gets to end.
RUNNER = """#!{python}
import os, signal, sys, time
from pathlib import Path

def roll_back(*_):
    time.sleep(3)
    Path({log!r}).write_text("rolled back")
    sys.exit(1)

signal.signal(signal.SIGTERM, roll_back)
Path({log!r}).write_text("installing")
time.sleep(float(sys.argv[1]))
os.execv({python!r}, [{python!r}, *sys.argv[2:]])
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """What the runner did."""
    return tmp_path / "log"


@pytest.fixture
def npx(tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Launch]:
    """Return a launch of the bundled server by a runner that first installs for so many seconds.

    How long which server may take is in `test_deadlines.py`.
    """
    path = tmp_path / "bin" / "npx"
    path.parent.mkdir()
    path.write_text(RUNNER.format(python=sys.executable, log=str(log)), encoding="utf-8")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(path.parent), prepend=":")
    monkeypatch.setattr(deadlines, "START_SECONDS", 0.5)

    def make(seconds: float) -> Launch:
        args = (str(seconds), "-m", "pflow_mcp_plugin.server.demo_server")
        return Launch(server=Server(name="slow", command="npx", args=args))

    return make


def test_a_server_that_is_being_installed_has_more_time_and_the_user_is_told(npx, pool, warnings_seen):
    assert pool.info(npx(1)).name == "pflow-demo"
    (said,) = warnings_seen
    assert "npx may still be installing it, for at most 300 s (startup_timeout sets" in said


def test_an_installation_without_end_is_given_up_and_may_undo_what_it_did(npx, pool, log, monkeypatch):
    monkeypatch.setattr(deadlines, "INSTALL_SECONDS", 1.0)
    within = "did not finish its start within 1 s: npx may still have been installing it"
    with pytest.raises(ConnectionFailed, match=within) as caught:
        pool.info(npx(60))
    assert caught.value.where.phase == "start"
    assert log.read_text() == "rolled back"


@pytest.mark.parametrize("opening", [True, False], ids=["while it is opened", "before it is opened"])
def test_the_end_of_a_run_lets_an_installation_undo_what_it_did(npx, log, opening):
    said: list[str] = []
    with Pool(said.append) as pool:
        if opening:
            pool.prepare(npx(60))
        else:
            pool._supervisor(npx(60)).start()
        until(lambda: log.exists() and (begun(pool) or not opening))
    assert log.read_text() == "rolled back"
    # On a busy machine, it may first be said that it takes long.
    assert said[-1:] == ["server slow was still being installed: that has 10 s to be undone"]


def begun(pool: Pool) -> bool:
    """Whether the server is being connected to."""
    return any(supervisor._opening is not None for supervisor in pool._supervisors.values())


KILLED = """
import os, signal, sys, time
from pathlib import Path
from pflow_mcp_plugin.client import Pool
from pflow_mcp_plugin.exchange import Launch
from pflow_mcp_plugin.types import Server
pool = Pool(print)
pool.prepare(Launch(server=Server(name="slow", command="npx", args=("60",))))
while not Path(sys.argv[1]).exists():
    time.sleep(0.01)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_an_installation_may_undo_what_it_did_when_pflow_is_killed(npx, log):
    subprocess.run([sys.executable, "-c", KILLED, str(log)], check=False, timeout=60)
    until(lambda: log.read_text() == "rolled back")
