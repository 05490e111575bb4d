"""What an error says and holds for each way in which a request, a start or a connection fails."""

import ssl
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.shared.exceptions import MCPError

from pflow_mcp_plugin.client.deadlines import Deadline
from pflow_mcp_plugin.client.failures import Evidence, explain
from pflow_mcp_plugin.client.request_failures import (
    AnswerTooSlow,
    BadEndpoint,
    Exchange,
    ForeignEndpoint,
    InvalidJson,
    NotMessage,
)
from pflow_mcp_plugin.client.transport.messages import Observations
from pflow_mcp_plugin.errors import CallFailed, ConnectionFailed, DeadlineExceeded, McpError
from pflow_mcp_plugin.network.certificates import CertificatesUnreadable
from pflow_mcp_plugin.network.egress import HostRefused, Refusal
from pflow_mcp_plugin.types import Server

URL = "https://x.example/mcp"
LOG, LATER, HANGS = "look at its log", "try again later", "call_timeout is how long"
ALONE, CODE, REPORT = "run its command by itself", "look up the code", "report it to the server's"


def failed(
    raised: BaseException | None = None, *, phase: Any = "call", server: Any = None, **known: Any
) -> McpError:
    """Return the error of a remote server, or of one with a command; other facts go into the exchange."""
    remote = not {"command", "path"} & {*(server or {})}
    base = {"transport": "http", "url": URL} if remote else {}
    names = {"status", "headers", "body", "error", "unsent", "answered", "cut", "resumes", "session_lost"}
    exchange = Exchange(**{name: known.pop(name) for name in names & {*known}})
    evidence = Evidence(
        server=Server(name="odd", **{**base, **(server or {})}),
        phase=phase,
        tool="act" if phase == "call" else "",
        exchange=exchange,
        **known,
    )
    return explain(raised or exchange.error or RuntimeError("x"), evidence)


def check(error: McpError, phase: str, words: str, step: str, **facts: Any) -> None:
    """Compare everything in an error with what is expected; defaults need not be named."""
    calling = phase == "call"
    assert words in error.message
    assert step in error.suggestions[0]
    assert error.where == ("odd", "act" if calling else "", phase, "")
    kind: type[McpError] = CallFailed if calling else ConnectionFailed
    assert isinstance(error, kind) or error.kind == "not_found"
    place = {"server": "odd", "phase": phase, **({"tool": "act"} if calling else {})}
    found = {name: value for name, value in error.details.items() if name not in place}
    assert place.items() <= error.details.items()
    default = {"kind": "execution" if calling else "connection", "action": "error", "ran": "not ran"}
    default |= {"retryable": False, "retry_after": None}
    assert {**{name: getattr(error, name) for name in default}, **found} == {**default, **facts}


UNKNOWN = {"ran": "unknown"}
REFUSED = {"kind": "connection", "action": "auth_failed"}


def challenge(text: str) -> dict[str, str]:
    return {"www-authenticate": f"Bearer {text}"}


@pytest.mark.parametrize(
    ("status", "known", "words", "step", "facts"),
    [
        (200, {"body": "hi"}, "answered with nothing (HTTP 200)", "/mcp", {"body": "hi", **UNKNOWN}),
        (302, {}, "redirects without a location", "redirect corrected", {}),
        (400, {"body": " a\n b "}, f"HTTP 400 from {URL}: a b", "own log", {"body": " a\n b "}),
        (401, {}, f"not logged in at {URL} (HTTP 401)", "${ODD_TOKEN}", REFUSED),
        (403, {}, "access denied", "check the permissions of the token", REFUSED),
        (403, {"headers": challenge('scope="a"')}, "the scope a", "a token with the scope a",
         {**REFUSED, "scope": "a"}),
        (404, {"session_lost": True}, "no longer knows this session", "the state of the session is lost",
         {"action": "resource_missing", "session_lost": True, **UNKNOWN}),
        (405, {}, "no MCP endpoint", "check the path of its url", {}),
        (429, {"answered": True}, "too many requests", LATER, {"action": "rate_limited", **UNKNOWN}),
        (503, {"headers": {"retry-after": "-5"}}, "HTTP 503", "try again later", UNKNOWN),
    ],
)  # fmt: skip
def test_a_refusal_over_http_says_why_and_what_helps(status, known, words, step, facts):
    check(failed(status=status, **known), "call", words, step, status=status, **facts)


@pytest.mark.parametrize(
    ("location", "words", "step", "shown"),
    [
        (URL, "redirects to itself", "redirect corrected", ""),
        ("/else?token=x", "to another address, https://x.example/else; refused", "set url of server odd to",
         "/else"),
        ("https://x.example:9/", "to another host", "set url of server odd to", "https://x.example:9/"),
        ("http://x.example/mcp", "to plain http", "its address is https", "http://x.example/mcp"),
        ("ftp://x.example/", "to an invalid address: ftp://x.example/", "redirect corrected", ""),
        ("https://[bad", "to an invalid address: https://[bad", "redirect corrected", ""),
    ],
)  # fmt: skip
def test_a_refused_redirect_says_where_it_leads(location, words, step, shown):
    error = failed(status=307, headers={"location": location})
    where = {"location": f"https://x.example{shown}" if shown.startswith("/") else shown} if shown else {}
    check(error, "call", words, step, status=307, **where)


def caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


def tls(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, "wrong")
    error.reason = reason
    return error


def certificate(code: int) -> Exception:
    error = ssl.SSLCertVerificationError(1, "no")
    error.verify_code, error.verify_message = code, "why"
    return caused(httpx2.ConnectError("x"), error)


RETRY = {"retryable": True}


@pytest.mark.parametrize(
    ("error", "words", "step", "facts"),
    [
        (InvalidJson("{oops", "fault"), "server odd: {oops (fault)", f"{REPORT} author", UNKNOWN),
        (NotMessage(), "JSON that is not a JSON-RPC message", f"{REPORT} author", UNKNOWN),
        (ForeignEndpoint("https://o"), "another host for its messages: https://o", "public address", {}),
        (BadEndpoint("::"), "an invalid address for its messages: ::", f"{REPORT} author", {}),
        (HostRefused(Refusal(message="m", next_step="n", host="h", address="a")), "m", "n",
         {"host": "h", "address": "a"}),
        (CertificatesUnreadable("the key", "why", "it"), "the key cannot be read: why", "correct it",
         UNKNOWN),
        (httpx2.ReadError("reset"), f"{URL} broke off: ReadError reset", "check the network",
         {"status": 200, **UNKNOWN}),
        (httpx2.ConnectTimeout(""), "broke off: ConnectTimeout", "check the network", RETRY),
        (httpx2.ProxyError("no"), f"the proxy for {URL} failed: no", "NO_PROXY", {}),
        (caused(httpx2.ReadError("x"), tls("TLSV1_ALERT_UNKNOWN_CA")), "wants a client certificate",
         "set client_cert of server odd", {}),
        (caused(httpx2.ConnectError("x"), tls("")), "the TLS handshake with x.example, port 443 failed: x",
         "check the port in its url", {}),
        (caused(httpx2.ReadError("x"), tls("")), "broke off: ReadError x", "", {"status": 200, **UNKNOWN}),
        (certificate(99), "is not accepted: why", "certificate fixed", {"certificate": "why"}),
    ],
)  # fmt: skip
def test_an_exchange_that_breaks_off_says_why_and_whether_it_was_sent(error, words, step, facts):
    check(failed(error=error, status=200), "call", words, step, **facts)


def test_a_slow_answer_and_an_event_stream_that_is_cut_say_whether_they_can_be_tried_again():
    slow, seconds = AnswerTooSlow(""), {"seconds": 30}
    step = "raise timeout of server odd"
    check(failed(error=slow), "call", "within 30 s (timeout)", step, action="timeout", **seconds, **UNKNOWN)
    check(failed(error=slow, phase="list"), "list", "within 30 s (timeout)", step, **seconds, **RETRY)
    check(failed(cut=True, resumes=2), "call", "after resuming it 2 times", LOG, resumes=2, **UNKNOWN)
    check(failed(cut=True, phase="list"), "list", "ended before the answer came", LOG, resumes=0)
    silent = failed(cut=True, error=httpx2.ReadTimeout(""))
    check(silent, "call", "silent for 300 s (sse_timeout)", "raise sse_timeout of server odd", **UNKNOWN)


def seen(**noticed: Any) -> Observations:
    observations = Observations()
    vars(observations).update(noticed)
    return observations


STDIO = {"command": "uvx", "args": ("tool",)}
LIMITED = {"server": {**STDIO, "memory_limit_mb": 10}, "memory_mb": 12.34}
LATE = {"passed": Deadline(3, "call_timeout"), "stderr": "ENOTFOUND"}
DEAF = {"seen": seen(write_timed_out=True), "stderr": "s"}
TIMED_OUT = {"action": "timeout", "stderr": "ENOTFOUND", "seconds": 3}
MEMORY = {"memory_mb": 12.3, "memory_limit_mb": 10}


@pytest.mark.parametrize(
    ("phase", "known", "words", "step", "facts"),
    [
        ("call", LIMITED, "used 12.3 MiB of memory", "memory_limit_mb of server odd", {**MEMORY, **UNKNOWN}),
        ("list", LIMITED, "was ended", "", MEMORY),
        ("call", {**LIMITED, "unsent": True}, "was ended", "", {**MEMORY, **RETRY}),
        ("list", {"seen": seen(invalid_json="{x", fault="f")}, "odd: {x (f)", "stdout is for messages only",
         {}),
        ("start", {"seen": seen(is_echo=True)}, "it is not an MCP server", "check its command: uvx tool", {}),
        ("call", {"seen": seen(is_echo=True)}, "Unexpected error with server odd: x", "authors of pflow",
         UNKNOWN),
        ("call", DEAF, "stopped reading", HANGS, {"stderr": "s", **UNKNOWN}),
        ("call", {**DEAF, "unsent": True}, "stopped reading", HANGS, {"stderr": "s", "action": "timeout"}),
        ("list", DEAF, "stopped reading", HANGS, {"stderr": "s"}),
        ("call", {**LATE, "seen": seen(unmatched=2)}, "within 3 s (call_timeout); 2 replies matched no",
         "raise call_timeout of server odd if", {**TIMED_OUT, **UNKNOWN}),
        ("start", {**LATE, "installer": "uvx", "config_file": Path("/c")},
         "uvx may still have been installing it",
         "it could not reach a host (ENOTFOUND)", {**TIMED_OUT, "action": "error", **RETRY}),
        ("list", {**LATE, "stderr": "", "config_file": Path("/c")}, "did not finish its list within 3 s",
         "raise mcpServers.odd.call_timeout in /c", {"seconds": 3, **RETRY}),
        ("call", {"returncode": 3, "seen": seen(unfinished=2)}, "odd exited 3 in the middle of a message",
         "look at its stderr", {"exit_code": 3, **UNKNOWN}),
        ("list", {"returncode": -9, "unsent": True}, "unexpectedly: odd was killed by SIGKILL", "its stderr",
         {"exit_code": -9, **RETRY}),
        ("start", {"returncode": -99}, "killed by signal 99 before", f"{ALONE} to see why: uvx tool",
         {"exit_code": -99}),
        ("start", {"returncode": 0, "seen": seen(first_stray="it greets")},
         "exited 0 before the handshake\nit greets", ALONE,
         {"exit_code": 0}),
    ],
)  # fmt: skip
def test_a_failing_process_says_what_it_did(phase, known, words, step, facts):
    check(failed(phase=phase, **{"server": STDIO, **known}), phase, words, step, **facts)


CLOSED = "Server odd closed the connection"


@pytest.mark.parametrize(
    ("error", "phase", "known", "words", "step", "facts"),
    [
        (MCPError(-32000, "Connection closed"), "call", {}, CLOSED, LOG, {"code": -32000, **UNKNOWN}),
        (MCPError(-32000, "own"), "call", {"closed": True, "unsent": True}, CLOSED, LOG,
         {"code": -32000, **RETRY}),
        (MCPError(-32000, "own"), "list", {}, "odd answered with error -32000: own", CODE, {"code": -32000}),
        (MCPError(-32700, "Failed to parse x"), "call", {}, "not a JSON-RPC message", REPORT, UNKNOWN),
        (MCPError(-32700, "own"), "call", {}, "error -32700: own", CODE, {"code": -32700, **UNKNOWN}),
        (MCPError(-32602, "Unknown tool: act"), "call", {}, "Tool act not found on server odd",
         "run: pflow mcp sync odd",
         {"kind": "not_found", "action": "resource_missing", "code": -32602}),
        (MCPError(-32602, "Unknown tool: act"), "list", {}, "Invalid params: server odd: Unknown", CODE,
         {"code": -32602}),
        (MCPError(-32603, "Unknown tool: act"), "call", {}, "error -32603", CODE,
         {"code": -32603, **UNKNOWN}),
        (MCPError(-32601, "no", {"a": 1}), "call", {}, "Method not found: act on server odd: no", CODE,
         {"code": -32601, "server_data": {"a": 1}}),
        (MCPError(-32001, "slow"), "call", {}, "error -32001: slow", "it gave up before any timeout of pflow",
         {"code": -32001, "action": "timeout", **UNKNOWN}),
        (MCPError(-32020, "h"), "call", {}, "error -32020: h", CODE, {"code": -32020}),
        (MCPError(7, ""), "call", {}, "error 7: no reason given", CODE, {"code": 7, **UNKNOWN}),
    ],
)  # fmt: skip
def test_an_error_of_the_protocol_says_what_the_server_said(error, phase, known, words, step, facts):
    check(failed(error, phase=phase, **{"server": STDIO, **known}), phase, words, step, **facts)
    assert isinstance(failed(server=STDIO, **LATE), DeadlineExceeded)


@pytest.mark.parametrize(
    ("says", "word"),
    [
        ("Error: connect ECONNREFUSED 127.0.0.1:5432\n    at TCPConnectWrap", "ECONNREFUSED"),
        ("FetchError: getaddrinfo EAI_AGAIN api.a.example", "EAI_AGAIN"),
        ("[Errno -3] Temporary failure in name resolution", "name resolution"),
        ("psycopg.OperationalError: connection failed: Connection refused", "connection refused"),
        ("connected, not found in cache", ""),
    ],
)
@pytest.mark.parametrize("how", [{"returncode": 1}, {"passed": Deadline(3, "startup_timeout")}])
def test_a_server_that_reaches_no_host_while_it_starts_is_not_told_to_wait_longer(says, word, how):
    [step, *_] = failed(server=STDIO, phase="start", stderr=says, **how).suggestions
    assert step.startswith(f"it could not reach a host ({word}): check its address") is bool(word)
    assert word or step.startswith(ALONE if "returncode" in how else "raise startup_timeout of server odd")


@pytest.mark.parametrize(("command", "step"), [("uvx", "put --with=mcp<2 before"), ("sh", "install mcp<2")])
@pytest.mark.parametrize(
    "says",
    [
        "ModuleNotFoundError: No module named 'mcp.server.fastmcp'. This is mcp 2.x",
        "ImportError: cannot import name 'McpError' from 'mcp.shared.exceptions' (/x/exceptions.py)",
        "AttributeError: 'Server' object has no attribute 'list_tools'",
    ],
)
def test_a_server_that_needs_the_older_sdk_is_told_from_others(command, step, says):
    error = failed(server={"command": command}, phase="start", returncode=1, stderr=says)
    assert error.suggestions[0].startswith(f"it was written for version 1 of the MCP SDK: {step}")


@pytest.mark.parametrize(
    ("words", "gone"),
    [
        ("Tool 'act' not found", True),
        ("Tool not found: act", True),
        ("MCP error -32602: Tool act not found", True),
        ("the tool act has the argument path: /etc/x not found", False),
    ],
)
def test_only_a_tool_that_the_server_does_not_know_is_gone(words, gone):
    assert (failed(MCPError(-32602, words)).kind == "not_found") is gone


def test_a_failure_that_nobody_foresaw_has_words_and_a_next_step():
    failure = failed(ExceptionGroup("g", [OverflowError("too large")]), phase="list")
    assert "too large (OverflowError)" in str(failure)
    assert failure.suggestions
