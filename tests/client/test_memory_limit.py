"""A limit on the memory of a server: what exceeds it is ended, children too, and the failure says why."""

import time

import pytest
from ended_processes import is_alive
from programs import until

from pflow_mcp_plugin.client import Pool
from pflow_mcp_plugin.errors import CallFailed, ConnectionFailed
from pflow_mcp_plugin.exchange import ToolCall
from pflow_mcp_plugin.processes import system_calls

pytestmark = pytest.mark.usefixtures("no_leftovers")

LIMIT = 100.0
"""In MiB. The scripted server alone uses about 15."""
EATS = """
def eats(seconds):
    eaten = []
    while True:
        eaten.append(b"x" * (8 << 20))
        time.sleep(seconds)
"""
SLOWLY = f"{EATS}\neats(0.02)"
CHILD = f"import time\n{EATS}\neats(0.02)"


def act(pool, launch):
    return pool.call(launch, ToolCall(server="odd", tool="act", arguments={}))


def refused(pool, launch, kind=CallFailed, within=30.0):
    begun = time.monotonic()
    with pytest.raises(kind) as failure:
        act(pool, launch)
    assert time.monotonic() - begun < within
    return failure.value


def test_a_server_that_eats_memory_during_a_call_is_ended_and_the_failure_says_so(pool, scripted):
    launch = scripted(SLOWLY, memory_limit_mb=LIMIT)
    error = refused(pool, launch)
    assert error.message.startswith("Server odd was ended: its processes used 1")
    assert "MiB of memory, more than its memory_limit_mb of 100" in error.message
    assert "raise memory_limit_mb of server odd in mcp-servers.toml" in error.suggestions[0]
    assert (error.kind, error.action, error.ran, error.retryable) == ("execution", "error", "unknown", False)
    assert error.details["memory_limit_mb"] == LIMIT
    assert LIMIT <= error.details["memory_mb"] < 3 * LIMIT  # rounded
    assert "exit_code" not in error.details


@pytest.mark.parametrize("session", [False, True], ids=["in its group", "in a session of its own"])
def test_the_memory_of_its_children_counts_and_they_are_ended_too(pool, scripted, tmp_path, session):
    log = tmp_path / "child"
    script = f"""
child = subprocess.Popen([sys.executable, "-c", {CHILD!r}], start_new_session={session})
open({str(log)!r}, "w").write(str(child.pid))
child.wait()
"""
    error = refused(pool, scripted(script, memory_limit_mb=LIMIT))
    assert error.details["memory_mb"] > LIMIT
    until(lambda: not is_alive(int(log.read_text())))


def test_a_server_below_its_limit_is_left_alone(pool, scripted, warnings_seen):
    script = "time.sleep(0.6); reply({'content': [], 'structuredContent': {'pid': os.getpid()}})"
    limited = scripted(script, memory_limit_mb=500.0)
    assert act(pool, limited).structured == act(pool, limited).structured
    assert warnings_seen == []


def test_one_that_is_idle_is_ended_with_a_warning_and_the_next_call_starts_it_again(
    pool, scripted, warnings_seen
):
    """It grows after its answer, in a thread."""
    script = f"""
import threading
{EATS}
reply({{"content": [], "structuredContent": {{"pid": os.getpid()}}}})
threading.Thread(target=eats, args=[0.02], daemon=True).start()
"""
    launch = scripted(script, memory_limit_mb=LIMIT)
    first = act(pool, launch).structured
    until(lambda: warnings_seen)
    (warning,) = warnings_seen
    assert warning.startswith("server odd was ended: its processes used 1")
    assert act(pool, launch).structured != first
    until(lambda: not is_alive(first["pid"]))


def test_one_that_exceeds_it_at_once_does_not_start_and_is_not_started_without_end(pool, scripted):
    launch = scripted(start="hoard = b'x' * (200 << 20); time.sleep(60)", memory_limit_mb=LIMIT)
    for _ in range(5):
        error = refused(pool, launch, ConnectionFailed)
        assert error.message.startswith("Server odd was ended: its processes used ")
        assert error.ran == "not ran"
    limited = refused(pool, launch, ConnectionFailed)
    assert limited.message.startswith("Server odd ended 5 times within 3 minutes")


def test_nothing_is_watched_where_no_limit_is_set(pool, scripted, monkeypatch):
    def fail(leader):
        raise AssertionError("the memory was looked at")

    monkeypatch.setattr("pflow_mcp_plugin.processes.shutdown.used_by", fail)
    assert act(pool, scripted()).content == ()


def test_where_the_memory_cannot_be_told_a_warning_says_so_once(scripted, monkeypatch, tmp_path):
    """As on systems without /proc."""
    warnings = []
    monkeypatch.setattr(system_calls, "_processes", dict)
    with Pool(warnings.append) as pool:
        for _ in range(2):
            act(pool, scripted(memory_limit_mb=0.5))
    (warning,) = warnings
    assert warning.startswith("server odd: memory_limit_mb has no effect")
