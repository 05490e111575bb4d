"""Many runs in a row and many calls at once, some of them cut short: nothing piles up or is lost.

`PFLOW_MANY=200` makes it 200 runs, and 500 calls for each of 8 threads; so does `tox -e many`, which
shows what was counted.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pflow_mcp_plugin.client import Pool
from pflow_mcp_plugin.errors import CallFailed, ConnectionFailed
from pflow_mcp_plugin.exchange import Launch, ToolCall
from pflow_mcp_plugin.types import Server

FAULTY = Path(__file__).parents[1] / "faults" / "stdio_server.py"
RUNS = int(os.environ.get("PFLOW_MANY", "5"))
THREADS, CALLS = 8, RUNS * 5 // 2

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120 + 15 * RUNS)]


def _end(run: subprocess.Popen[str], kill_after: float | None = None) -> int:
    if kill_after is not None:
        time.sleep(kill_after)
        run.kill()
    run.communicate()
    return run.returncode


def _files(home: Path) -> set[Path]:
    return {path for path in home.rglob("*") if path.is_file() and "traces" not in path.parts}


def test_runs_in_a_row_some_of_them_killed_leave_nothing_behind(
    no_leftovers, pflow, pflow_home, configured, started, workflow
):
    configured("odd", {"command": sys.executable, "args": [str(FAULTY), "Plain"]})
    path = workflow(("a", "mcp-odd-act", {"value": 1}), ("b", "mcp-odd-act", {"value": 2}))
    assert _end(started("run", path)) == 0
    files = {each: each.read_bytes() for each in _files(pflow_home) if "cache" not in each.parts}
    begun = time.monotonic()
    assert _end(started("run", path)) == 0
    whole, chance = time.monotonic() - begun, random.Random(11)
    ends: Counter[str] = Counter()
    for number in range(1, RUNS + 1):
        killed = number % min(RUNS, 10) == 0  # at any moment of a run, however long one takes here
        code = _end(started("run", path), chance.uniform(0, whole) if killed else None)
        assert code in ((0, -signal.SIGKILL) if killed else (0,))
        ends["ended well" if code == 0 else "killed"] += 1
    assert _end(started("run", path), 0.0) == -signal.SIGKILL  # others may have been faster than their end
    assert _end(started("run", path)) == 0
    assert {each: each.read_bytes() for each in files} == files
    # Those that were killed left their records, so that they can be resumed.
    left = {each for each in _files(pflow_home) if not {"cache", "runs"} & {*each.parts}}
    assert left == {each for each in files if "runs" not in each.parts}
    traces = list((pflow_home / "state" / "traces").iterdir())
    assert all(json.loads(trace.read_bytes())["run_id"] for trace in traces if trace.suffix == ".json")
    assert pflow("resume", "--list").exit_code == 0  # whoever reads a record completes it
    assert [each for each in pflow_home.rglob("*") if each.name.endswith((".tmp", "-journal", "-wal"))] == []
    assert pflow("mcp", "tools", "--json").envelope["data"][0]["node"] == "mcp-odd-act"
    print(f"{RUNS} runs: {dict(ends)}; {len(traces)} traces, {len(files)} files, all whole; nothing left")


def test_calls_of_eight_threads_through_a_crash_end_and_none_is_sent_twice(no_leftovers, tmp_path):
    log = tmp_path / "log"
    crash_at = f"3-{CALLS // 2}"
    env = {"LOG": str(log), "CRASH_AT": crash_at}
    launch = Launch(
        server=Server(name="odd", command=sys.executable, args=(str(FAULTY), "CrashesOnce"), env=env)
    )

    def call(value: str) -> str:
        try:
            answer = pool.call(launch, ToolCall(server="odd", tool="act", arguments={"value": value}))
        except (CallFailed, ConnectionFailed) as error:
            return error.ran
        assert answer.content[0]["text"] == value
        return "result"

    def calls(thread: int) -> dict[str, str]:
        return {value: call(value) for value in (f"{thread}-{number}" for number in range(CALLS))}

    with Pool(lambda _: None) as pool, ThreadPoolExecutor(THREADS) as threads:
        ends = {value: end for part in threads.map(calls, range(THREADS)) for value, end in part.items()}
    lines = Counter(log.read_text(encoding="utf-8").splitlines())
    sent = {value: lines[f"call {value}"] for value in ends}
    assert lines["start"] == 2
    assert len(ends) == THREADS * CALLS
    assert set(ends.values()) <= {"result", "unknown", "not ran"}
    assert ends[crash_at] == "unknown"
    assert max(sent.values()) == 1
    assert {sent[value] for value, end in ends.items() if end == "result"} == {1}
    assert {sent[value] for value, end in ends.items() if end == "not ran"} <= {0}
    assert sum(end == "unknown" for end in ends.values()) <= THREADS
    print(f"{THREADS} × {CALLS} calls: {dict(Counter(ends.values()))}; none sent twice")
