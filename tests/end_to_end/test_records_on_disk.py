"""A harmful call waits until the disk has its record, and what steps returned does not stay in memory."""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from prepared_starts import PROGRAM
from programs import script_server
from workflow_parts import edge, step

pytestmark = [pytest.mark.programs, pytest.mark.usefixtures("no_leftovers")]
COUNTING = Path(__file__).with_name("counting_server.py")
RESULTS = int(os.environ.get("PFLOW_LARGE_RESULTS", "60"))
"""How many results of two MB a batch returns."""
MOST_MB = 180
"""What pflow may take, however many they are."""

MEASURED = """
import re, sys
from pathlib import Path
from pflow_mcp_plugin.__main__ import program
code = program()
# Not `ru_maxrss`: a process inherits that of the one that started it.
print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1], file=sys.stderr)
sys.exit(code)
"""


@pytest.fixture
def traced(configured, started, workflow, tmp_path):
    """Run steps of a tool under strace; return `sync` and `call`, in the order in which they came."""
    if shutil.which("strace") is None:
        pytest.skip("no strace here: install the Debian package strace")

    def run(tool):
        table = script_server(COUNTING, env={"EFFECTS": str(tmp_path / "effects")}, trust_readonly=True)
        configured("counting", table)
        nodes = [step(f"n{it}", f"mcp-counting-{tool}", {"value": it}) for it in range(4)]
        path = workflow(*nodes, edges=[edge(f"n{it}", f"n{it + 1}") for it in range(3)])
        log = tmp_path / "strace"
        traced = "trace=fsync,fdatasync,write,writev,sendto,sendmsg"
        strace = ("strace", "-f", "-y", "-s", "400", "-e", traced, "-o", log)
        program = started("run", path, program=(*map(str, strace), *PROGRAM))
        _, said = program.communicate(timeout=60)
        calls = log.read_text()
        assert program.returncode == 0, f"{said}\n{calls[-2000:]}"
        return re.findall(r"(sync)\(\d+<[^>]*/runs/open/[^>]*>|(tools/call)", calls)

    return run


def test_the_disk_has_the_record_of_each_harmful_call_before_it_is_sent(traced):
    happened = [sync or call for sync, call in traced("send")]
    assert happened.count("tools/call") == 4
    for at, what in enumerate(happened):
        assert what == "sync" or happened[at - 1] == "sync"


def test_nothing_waits_for_the_disk_before_a_call_that_is_safe_to_repeat(traced):
    assert [sync or call for sync, call in traced("look")] == ["tools/call"] * 4


def test_a_batch_of_large_results_does_not_stay_in_memory(configured, started, workflow, tmp_path):
    env = {"EFFECTS": str(tmp_path / "effects"), "SIZE": "2000000"}
    configured("counting", script_server(COUNTING, env=env))
    items = {"items": list(range(RESULTS)), "parallel": True, "max_concurrent": 4}
    send = step("all", "mcp-counting-send", {"value": "${item}"}, batch=items)
    last = step("last", "echo", {"message": "${all.results[-1].value}"})
    outputs = {"done": "${all.succeeded}", "last": "${last.message}"}
    path = workflow(send, last, edges=[edge("all", "last")], outputs=outputs)
    run = started("run", path, program=(sys.executable, "-P", "-c", MEASURED))
    shown, said = run.communicate(timeout=110)
    assert run.returncode == 0, said
    assert f"done: {RESULTS}" in shown
    assert f"last: {RESULTS - 1}" in shown
    assert int(said.split()[-1]) / 1024 < MOST_MB


def test_nor_does_one_of_many_that_end_at_the_same_time(started, workflow, tmp_path):
    (tmp_path / "large.txt").write_text("a line of a large text\n" * 43_000)
    items = {"items": list(range(200)), "parallel": True, "max_concurrent": 16}
    read = step("all", "read-file", {"file_path": str(tmp_path / "large.txt")}, batch=items)
    path = workflow(read, outputs={"done": "${all.succeeded}"})
    run = started("run", path, program=(sys.executable, "-P", "-c", MEASURED))
    shown, said = run.communicate(timeout=110)
    assert run.returncode == 0, said
    assert "200" in shown
    assert int(said.split()[-1]) / 1024 < MOST_MB
