"""Faults 1 to 34: what goes wrong with a stdio server, and what the user is told."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from programs import until

from pflow_mcp_plugin.client import Pool
from pflow_mcp_plugin.client.failures import Evidence, explain
from pflow_mcp_plugin.client.request_failures import Exchange
from pflow_mcp_plugin.client.supervisor import RestartLimit
from pflow_mcp_plugin.client.transport.line_transports import TailReader
from pflow_mcp_plugin.client.transport.messages import LineBuffer
from pflow_mcp_plugin.discovery.servers import launch as configured
from pflow_mcp_plugin.errors import CallFailed, ConnectionFailed, DeadlineExceeded, McpError, Where
from pflow_mcp_plugin.exchange import Launch
from pflow_mcp_plugin.execution.node import MCPNode
from pflow_mcp_plugin.processes.reaper_process import marked_processes
from pflow_mcp_plugin.types import Server

FAULTY = Path(__file__).with_name("stdio_server.py")
MIB = 1 << 20
_STDERR_KEPT = 64 * 1024


def starts(bench) -> int:
    return bench.log.count("start")


def calls(bench) -> list[str]:
    return [line for line in bench.log if line.startswith("call ")]


def program(**options: object) -> Launch:
    return Launch(server=Server(name="odd", **options))  # type: ignore[arg-type]  # any field of `Server`


def test_row_01_a_missing_command_is_named_with_the_closest_one(connection_fails):
    error = connection_fails(program(command="pythn3"), "Command not found: pythn3", phase="start")
    assert error.details["closest"] == "python3"
    assert "python3" in error.suggestions[0]
    assert error.exit_code == 3


@pytest.mark.parametrize("by_name", [True, False])
def test_row_02_a_command_that_may_not_be_executed_is_told(tmp_path, by_name, connection_fails):
    path = tmp_path / "not-executable"
    path.touch(mode=0o600)
    error = connection_fails(
        program(command=path.name if by_name else str(path), env={"PATH": str(tmp_path)}),
        f"Permission denied: {path}",
        phase="start",
    )
    assert error.suggestions == (f"chmod +x {path}",)


def test_row_03_a_server_that_exits_at_once_is_told_with_code_and_last_words(connection_fails):
    error = connection_fails("ExitsAtOnce", "Server odd exited 3 before the handshake")
    assert "\n  no database" in error.message
    assert error.details["exit_code"] == 3


def test_row_04_log_lines_on_stdout_cost_one_warning_without_their_content(bench):
    assert bench.act(bench.launch("LogsOnStdout")).content[0]["text"] == "done"
    (warning,) = bench.warnings
    assert warning.startswith("server odd writes lines on stdout that are not messages")
    assert "secret-7" not in warning


def test_row_04_log_lines_at_the_start_are_quoted_in_a_sync_and_where_that_fails(bench, connection_fails):
    (note,) = bench.pool.list_tools(bench.launch("LogsOnStdout")).notes
    assert note == "it writes lines on stdout that are not messages, such as: starting with secret-7"
    assert bench.warnings == []
    error = connection_fails(
        program(command="sh", args=("-c", "echo no token; exit 1")),
        "Server odd exited 1 before the handshake",
    )
    assert "it writes lines on stdout that are not messages, such as: no token" in error.message


def test_row_04_a_server_that_only_sends_back_what_it_is_sent_is_no_mcp_server(connection_fails):
    error = connection_fails(
        program(command="cat"),
        "Server odd sends back what it is sent: it is not an MCP server",
        phase="handshake",
    )
    assert error.suggestions == ("check its command: cat",)


def test_row_04_a_line_that_begins_like_json_and_is_none_is_told(call_fails):
    error = call_fails("BreaksJson", "Invalid JSON response from server odd: {oops")
    assert "author" in error.suggestions[0]


def test_row_05_a_message_that_breaks_off_is_no_success(call_fails):
    begins = "MCP server process terminated unexpectedly: odd exited 0 in the middle of a message"
    error = call_fails("BreaksOff", begins)
    assert error.details["exit_code"] == 0


def test_row_06_bytes_that_are_not_utf8_are_a_warning_and_no_hang(bench, within):
    with within(15):
        assert bench.act(bench.launch("WritesBadBytes")).content[0]["text"] == "a\ufffdb"
    assert ["UTF-8" in text for text in bench.warnings] == [True]


def test_row_07_an_endless_line_is_cut_off_at_the_cap(bench, call_fails):
    begins = "Server odd sent a message of more than 4 MiB ("
    error = call_fails(bench.launch("WritesWithoutEnd", max_line_mb=4, call_timeout=5), begins)
    assert error.details["limit_bytes"] == 4 * MIB
    assert 4 * MIB < error.details["size_bytes"] < 6 * MIB
    assert f"({error.details['size_bytes']:,} bytes received so far)" in error.message
    assert "max_line_mb" in error.suggestions[0]


def test_row_07_a_long_message_comes_through_in_time(bench, within):
    with within(20):
        result = bench.act(bench.launch("SendsMuch"))
    assert len(result.content[0]["text"]) == 20_000_000


def test_row_07_a_line_in_pieces_is_never_copied_to_be_added_to():
    """Its time is then in proportion to its length; joined anew at each piece, it is copied 256 times."""
    buffer = LineBuffer(cap=1 << 30)
    begun = buffer._begun
    for _ in range(256):
        assert list(buffer.feed(b"x" * 65_536)) == []
    assert buffer._begun is begun
    (line,) = buffer.feed(b"\n")
    assert len(line) == 16 * MIB


def test_row_08_a_silent_server_ends_at_the_start_deadline_which_names_the_phase(bench, connection_fails):
    begins = "Server odd did not finish its handshake within 1 s"
    error = connection_fails(bench.launch("IsSilent", startup_timeout=1), begins, retryable=True)
    assert error.details["seconds"] == 1
    assert "startup_timeout" in error.suggestions[0]


def test_row_09_a_deadline_counts_the_replies_to_nobody(bench, call_fails):
    begins = "Tool act on server odd did not answer within 0.5 s (call_timeout); 1 replies matched no"
    error = call_fails(bench.launch("AnswersAnotherId", call_timeout=0.5), begins, DeadlineExceeded)
    assert (error.action, error.details["seconds"]) == ("timeout", 0.5)


def test_row_10_a_reply_that_comes_three_times_is_one_result(bench, call_fails):
    launch = bench.launch("AnswersThreeTimes", call_timeout=0.5)
    assert [bench.act(launch, value=n).content[0]["text"] for n in range(3)] == ["0", "1", "2"]
    begins = "Tool act on server odd did not answer within 0.5 s (call_timeout); 6 replies matched no"
    error = call_fails(launch, begins, DeadlineExceeded, arguments={"value": "hang"})
    assert error.details["seconds"] == 0.5


def test_row_11_another_protocol_version_names_both_sides(connection_fails):
    begins = "MCP protocol version not supported: server odd offers 1999-01-01, pflow requires 2025-11-25"
    connection_fails("SpeaksAnOldVersion", begins)


def test_row_12_a_server_that_stops_reading_ends_at_the_write_deadline_and_did_not_run(bench, call_fails):
    begins = "Server odd stopped reading: a message could not be written within its deadline"
    error = call_fails(
        bench.launch("StopsReading", call_timeout=0.5),
        begins,
        DeadlineExceeded,
        arguments={"value": "x" * 4_000_000},
        ran="not ran",
    )
    assert error.action == "timeout"
    assert not calls(bench)


def test_row_13_a_server_that_will_not_end_is_gone_in_five_seconds(bench):
    with Pool(print) as pool:
        pool.info(bench.launch("WillNotEnd"))
        assert len(bench.hidden_left()) == 1
        started = time.monotonic()
    assert time.monotonic() - started < 5
    assert marked_processes(f"{os.getpid()}-") == []
    until(lambda: not bench.hidden_left(), 1)


def test_row_14_grandchildren_end_with_their_server(bench):
    with Pool(print) as pool:
        pool.info(bench.launch("StartsChildren"))
        until(lambda: len(marked_processes(f"{os.getpid()}-")) == 3)
        assert len(bench.hidden_left()) == 1
    assert marked_processes(f"{os.getpid()}-") == []
    until(lambda: not bench.hidden_left(), 1)


def test_row_15_a_daemon_is_found_by_the_marker_in_its_environment(bench):
    """Its pool ends it, and not only the reaper, which lives as long as any pool of the process."""
    bench.pool.info(bench.launch("Plain", name="other"))
    (other,) = marked_processes(f"{os.getpid()}-")
    with Pool(print) as pool:
        pool.info(bench.launch("StartsADaemon"))
        until(lambda: len(marked_processes(f"{os.getpid()}-")) == 3)
    assert marked_processes(f"{os.getpid()}-") == [other]


@pytest.mark.timeout(60)
def test_row_16_a_flood_on_stderr_is_drained_and_its_end_is_kept(bench, within, call_fails):
    launch = bench.launch("FloodsStderr")
    with within(20):
        assert bench.act(launch).content[0]["text"] == "done"
    error = call_fails(
        launch, "MCP server process terminated unexpectedly: odd exited 4", arguments={"value": "die"}
    )
    assert error.details["exit_code"] == 4
    assert 0 < len(error.details["stderr"]) <= _STDERR_KEPT
    reader = TailReader()
    for _ in range(20):
        reader.data_received(b"x" * 1_000_000)
    assert len(reader._kept) <= 2 * _STDERR_KEPT


def test_row_17_a_crash_in_mid_call_is_told_with_signal_last_words_and_unknown_outcome(bench, call_fails):
    error = call_fails("Crashes", "MCP server process terminated unexpectedly: odd was killed by SIGSEGV")
    assert "\n  going down" in error.message
    assert error.details["exit_code"] == -signal.SIGSEGV
    assert (len(calls(bench)), starts(bench)) == (1, 1)  # what was written is never sent again


def test_row_18_a_hung_call_is_cancelled_and_its_server_stopped_and_others_go_on(bench, call_fails):
    other = bench.launch("Plain", name="other")
    begins = "Tool act on server odd did not answer within 0.5 s (call_timeout)"
    error = call_fails(bench.launch("Hangs", call_timeout=0.5), begins, DeadlineExceeded)
    assert (error.action, error.details["seconds"]) == ("timeout", 0.5)
    assert bench.act(other).content[0]["text"] == "done"
    until(lambda: "cancelled" in bench.log)
    until(lambda: len(marked_processes(f"{os.getpid()}-")) == 1)


def test_row_18_ctrl_c_reaches_the_server_as_a_cancellation(bench):
    """Whatever ends the waiting for a call cancels it: here the alarm plays Ctrl-C."""
    launch = bench.launch("Hangs", call_timeout=300)
    bench.pool.info(launch)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(KeyboardInterrupt):
            bench.act(launch)
    finally:
        signal.signal(signal.SIGALRM, before)
    until(lambda: "cancelled" in bench.log)


def test_row_19_a_tools_own_failure_is_the_nodes_error_whatever_else_there_is(bench):
    bench.sync("ReportsAFailure")
    resources = {"mcp": bench.runtime()}
    run = SimpleNamespace(
        resources=resources,
        run_id="r",
        artifacts_dir=Path(),
        annotate=lambda *_: None,
        current_step=lambda: None,
    )
    shared: dict[str, object] = {"__run__": run}
    node = MCPNode()
    node.set_params({"__mcp_server__": "odd", "__mcp_tool__": "act"})
    assert node.run(shared) == "error"
    assert shared["error"] == "no such issue"
    assert "result" not in shared
    error = shared["__error__"]
    assert type(error) is CallFailed
    assert (error.where.phase, error.ran, error.retryable) == ("result", "ran", False)
    assert error.suggestions


def test_row_20_a_json_rpc_error_shows_code_and_message_and_is_not_a_tools_failure(call_fails):
    error = call_fails("AnswersWithAnError", "Server odd answered with error -32050: quota used up")
    assert error.details["code"] == -32050


def test_row_21_a_list_without_end_stops_at_100_pages_and_says_so(bench):
    listing = bench.pool.list_tools(bench.launch("NeverEndsItsList"))
    assert len(listing.tools) == 100
    assert "100 pages" in listing.notes[0]


def test_row_21_a_cursor_that_repeats_stops_the_list_and_the_tools_are_kept(bench):
    listing = bench.pool.list_tools(bench.launch("RepeatsItsList"))
    assert [tool.name for tool in listing.tools] == ["act"]
    assert "repeats itself" in listing.notes[0]
    assert bench.log.count("tools/list") == 2


def test_row_22_two_tools_of_one_name_are_both_refused_by_name(bench):
    listing = bench.pool.list_tools(bench.launch("HasDoubles"))
    assert [tool.name for tool in listing.tools] == ["good"]
    assert [name for name, _ in listing.skipped] == ["two"]


def test_row_23_a_malformed_tool_is_skipped_and_named_and_the_rest_kept(bench):
    listing = bench.pool.list_tools(bench.launch("HasAMalformedTool"))
    assert [tool.name for tool in listing.tools] == ["good", "fine"]
    assert [name for name, _ in listing.skipped] == ["bad"]


_LOOP = {"type": "object", "properties": {"x": {"$ref": "#/$defs/a"}}}
_LOOP |= {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}


def _explosion(levels: int) -> dict[str, object]:
    """Return a small schema that is 2 ** `levels` large with its references followed."""
    defs: dict[str, object] = {f"d{levels}": {"type": "string"}}
    for level in range(levels):
        ref = {"$ref": f"#/$defs/d{level + 1}"}
        defs[f"d{level}"] = {
            "anyOf": [{"allOf": [ref, {"minLength": 9}]}, {"allOf": [ref, {"maxLength": 0}]}]
        }
    return {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": defs}


@pytest.mark.parametrize("schema", [_LOOP, _explosion(40)], ids=["loop", "explosion"])
def test_row_24_a_schema_without_end_is_a_schema_error_in_good_time(bench, fails, within, schema):
    with within(20):
        assert bench.sync("HasTheSchema", env={"SCHEMA": json.dumps(schema)}).tools_registered == 1
    runtime = bench.runtime()
    begins = "The input schema of tool act on server odd"
    fails(
        lambda: runtime.call(runtime.target("odd", "act"), {"x": "word"}), McpError, begins, phase="arguments"
    )
    assert not calls(bench)


def test_row_25_references_to_the_network_and_to_files_are_never_fetched(bench, within, tmp_path):
    (tmp_path / "schema.json").write_text('{"type": "integer"}', encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        port = listening.getsockname()[1]
        properties = {
            "far": {"$ref": f"http://127.0.0.1:{port}/schema.json"},
            "near": {"$ref": (tmp_path / "schema.json").as_uri()},
        }
        schema = {"type": "object", "properties": properties}
        bench.sync("HasTheSchema", env={"SCHEMA": json.dumps(schema)})
        with within(15):
            runtime = bench.runtime()
            answer = runtime.call(runtime.target("odd", "act"), {"far": "any", "near": "thing"})
        with pytest.raises(BlockingIOError):
            listening.accept()
    assert answer.content[0]["text"] == "done"


def test_row_26_a_pattern_that_backtracks_without_end_is_left_to_the_server(bench, within):
    pattern = {"type": "object", "properties": {"x": {"type": "string", "pattern": "^(a+)+$"}}}
    bench.sync("HasTheSchema", env={"SCHEMA": json.dumps(pattern)})
    with within(15):
        runtime = bench.runtime()
        answer = runtime.call(runtime.target("odd", "act"), {"x": "a" * 60 + "!"})
    assert answer.content[0]["text"] == "done"


def test_row_27_tools_that_change_in_mid_run_are_told_at_its_end(bench):
    bench.sync("ChangesItsTools")
    runtime = bench.runtime()
    runtime.call(runtime.target("odd", "act"), {"value": "go on"})
    runtime.warn_of_changed_lists()
    assert not bench.warnings  # it only says so, as many do after each start
    runtime.call(runtime.target("odd", "act"), {"value": "change"})
    assert [record.tool.name for record in bench.catalog.records()] == ["act"]
    assert runtime.call(runtime.target("odd", "act"), {}).content[0]["text"] == "done"
    with pytest.raises(McpError):
        runtime.call(runtime.target("odd", "another"), {})
    runtime.warn_of_changed_lists()
    (warning,) = bench.warnings
    assert "changed during the run" in warning
    assert "pflow mcp sync odd" in warning
    bench.warnings.clear()
    runtime = bench.runtime()
    runtime.call(runtime.target("odd", "act"), {"value": "change"})
    runtime._pool.list_tools = Mock(side_effect=McpError("it is gone", where=Where(server="odd")))
    runtime.warn_of_changed_lists()
    assert "changed during the run" in bench.warnings[0]  # what it is now cannot be asked


def test_row_28_a_tool_that_vanished_is_told_and_that_a_sync_is_due(call_fails):
    error = call_fails("LosesItsTool", "Tool act not found on server odd", McpError, ran="not ran")
    assert "pflow mcp sync odd" in error.suggestions[0]


@pytest.mark.parametrize("method", ["sampling/createMessage", "elicitation/create"])
def test_row_29_a_server_that_asks_is_declined_and_the_user_told(bench, method):
    answer = json.loads(bench.act(bench.launch("Asks"), value=method).content[0]["text"])
    if method == "elicitation/create":
        assert answer["result"] == {"action": "decline"}
    else:
        assert answer["error"]["code"] == -1
        assert "declined" in answer["error"]["message"]
    (warning,) = bench.warnings
    assert warning.startswith("server odd asks for ")
    assert "declined" in warning


_HOST = """
import os, sys, time
from pflow_mcp_plugin.client import Pool
from pflow_mcp_plugin.exchange import Launch
from pflow_mcp_plugin.types import Server
if sys.argv[2] == "hang up":
    os.close(os.open(os.ttyname(0), os.O_RDWR))  # a session's leader so gets its terminal
pool = Pool(print)
env = {"LOG": sys.argv[3]}
for name in ("StartsChildren", "StartsADaemon", "WillNotEnd"):
    args = (sys.argv[1], name)
    pool.info(Launch(server=Server(name=name.lower(), command=sys.executable, args=args, env=env)))
if sys.argv[2] == "kill" and os.fork() == 0:
    time.sleep(600)  # a child that holds all that was open, the lifeline too
print("ready", flush=True)
time.sleep(600)
"""


@pytest.mark.timeout(60)
@pytest.mark.parametrize("how", ["kill", "hang up"])
def test_row_30_however_the_host_ends_its_servers_are_gone_two_seconds_later(bench, hosts, how):
    ours, theirs = os.openpty()
    program = [sys.executable, "-c", _HOST, str(FAULTY), how, str(bench.log_file)]
    host = subprocess.Popen(program, stdin=theirs, stdout=subprocess.PIPE, start_new_session=True)
    hosts.append(host.pid)
    os.close(theirs)
    try:
        assert host.stdout is not None
        assert host.stdout.readline() == b"ready\n"
        marker = f"{host.pid}-"
        if how == "kill":
            assert len(marked_processes(marker)) >= 6
            assert len(bench.hidden_left()) == 2
            host.kill()
        else:
            os.close(ours)
        host.wait(5)
        until(lambda: not (marked_processes(marker) or bench.hidden_left()), 2)
    finally:
        if how == "kill":
            os.close(ours)
        host.kill()
        with host.stdout, suppress(ProcessLookupError):
            os.killpg(host.pid, signal.SIGKILL)  # the fork of the host is no server, and nobody else ends it


def test_row_31_a_server_that_crashes_over_and_over_is_started_five_times(bench, call_fails):
    launch = bench.launch("Crashes")
    for _ in range(5):
        with pytest.raises(CallFailed):
            bench.act(launch)
    begins = "Server odd ended 5 times within 3 minutes; it is not started again"
    call_fails(launch, begins, ConnectionFailed, ran="not ran", phase="start")
    assert starts(bench) == 5


def test_row_31_it_may_start_again_when_three_minutes_have_passed():
    now = [0.0]
    brake = RestartLimit(lambda: now[0])
    for second in range(5):
        now[0] = second
        brake.start("odd")
    now[0] = 179
    with pytest.raises(ConnectionFailed):
        brake.start("odd")
    now[0] = 181
    brake.start("odd")


def test_row_32_a_server_that_died_while_idle_is_started_again(bench):
    launch = bench.launch("DiesIdle")
    for _ in range(2):
        assert bench.act(launch).content[0]["text"] == "done"
        # A dying process loses its environment, and so its marker, before its pipes are closed.
        until(lambda: not bench.dying_left())
    assert starts(bench) == 2
    assert any("exited or hung and is being restarted" in text for text in bench.warnings)


def test_row_32_a_call_that_could_not_be_written_is_sent_to_a_new_server(bench):
    launch = bench.launch("StopsListeningIdle")
    assert [bench.act(launch, value=n).content[0]["text"] for n in range(2)] == ["done", "done"]
    assert calls(bench) == ["call 0", "call 1"]
    assert starts(bench) == 2


def test_row_32_the_end_of_a_server_that_got_nothing_leaves_a_call_to_be_sent():
    exchange = Exchange(unsent=True)
    evidence = Evidence(server=Server(name="odd"), phase="call", tool="act", returncode=1, exchange=exchange)
    error = explain(BrokenPipeError(), evidence)
    assert (error.ran, error.retryable) == ("not ran", True)


def test_row_33_a_server_that_exits_on_the_probe_gets_the_handshake_which_is_remembered(bench):
    assert bench.sync("DiesOnTheProbe").error is None
    assert starts(bench) == 2
    launch = configured("odd", bench.store, bench.catalog, os.environ.get)
    with Pool(print) as later:
        later.info(launch)
    assert starts(bench) == 3
    assert bench.log.count("server/discover") == 1


def test_row_33_a_server_that_is_started_again_in_a_run_is_not_probed_again(bench):
    launch = bench.launch("DiesOnTheProbe")
    with pytest.raises(CallFailed):
        bench.act(launch, value="die")
    assert bench.act(launch).content[0]["text"] == "done"
    assert starts(bench) == 3
    assert bench.log.count("server/discover") == 1


def test_row_34_the_wait_for_a_silent_probe_is_paid_once(bench, within):
    with within(20):
        assert bench.sync("SilentOnTheProbe", startup_timeout=3).error is None
    launch = configured("odd", bench.store, bench.catalog, os.environ.get)
    with within(15), Pool(print) as later:
        later.info(launch)
    assert bench.log.count("server/discover") == 1


def test_row_34_a_modern_server_that_only_starts_slowly_is_told_from_a_silent_one(bench):
    assert bench.pool.info(bench.launch("StartsSlowly", startup_timeout=6)).era == "modern"
    assert bench.log.count("server/discover") == 2
