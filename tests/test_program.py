"""How the program ends: as any Python program does, unless something hangs."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.usefixtures("pflow_home")

PROGRAM = """
import atexit, os, signal, sys, threading, time
import pflow_mcp_plugin.__main__ as start
{before}
sys.argv = ["pflow", "mcp", "list"]
sys.exit(start.program())
"""


def run(before: str) -> subprocess.CompletedProcess[str]:
    code = PROGRAM.format(before=before)
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )


def test_threads_may_finish_their_work_and_what_is_registered_for_its_end_is_done() -> None:
    work = "lambda: (threading.main_thread().join(), print('finished'))"
    done = run(f"threading.Thread(target={work}).start(); atexit.register(print, 'at exit')")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("finished\nat exit\n")


@pytest.mark.parametrize(
    ("hangs", "named"),
    [
        ("threading.Thread(target=time.sleep, args=(60,), name='stuck').start()", "thread stuck"),
        ("atexit.register(time.sleep, 60)", "an atexit function"),
    ],
)
def test_what_hangs_at_its_end_is_not_waited_for(hangs: str, named: str) -> None:
    done = run(f"start._GRACE = 0.5; {hangs}")
    assert done.returncode == 0
    assert done.stderr == f"Warning: the program ended without waiting for {named}\n"


def test_ctrl_c_ends_what_hangs_at_its_end_at_once() -> None:
    hangs = "lambda: (signal.raise_signal(signal.SIGINT), time.sleep(60))"
    main = f"lambda: atexit.register({hangs}) and 0"
    done = run(f"import pflow_mcp_plugin.host.cli.command_line as line; line.main = {main}")
    assert (done.returncode, done.stderr) == (130, "")


def test_ctrl_c_before_the_command_line_is_there_is_told_as_any_other() -> None:
    interrupted = "lambda: signal.raise_signal(signal.SIGINT)"
    done = run(f"import pflow_mcp_plugin.host.cli.command_line as line; line.main = {interrupted}")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Error: interrupted\n")


def test_it_does_not_end_while_the_thread_that_watches_its_end_is_starting() -> None:
    late = "lambda begin, given: start_thread(lambda: (print('begun'), begin(*given)), ())"
    patched = f"import _thread; start_thread = _thread.start_new_thread; _thread.start_new_thread = {late}"
    done = run(f"{patched}; atexit.register(print, 'at exit')")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("begun\nat exit\n")


def test_it_ends_as_usual_where_no_thread_can_start() -> None:
    refused = "def refuse(*_):\n    raise RuntimeError\nimport _thread; _thread.start_new_thread = refuse"
    done = run(refused)
    assert (done.returncode, done.stderr) == (0, "")
