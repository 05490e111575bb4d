"""The values that rooms share: their defaults, and what they say of themselves."""

import re
from pathlib import Path

import attrs
import pytest

from pflow_mcp_plugin.errors import CallFailed, ConnectionFailed, DeadlineExceeded, McpError, Where
from pflow_mcp_plugin.exchange import CallResult, Launch
from pflow_mcp_plugin.types import Server, Tool, ToolFilter, ToolRecord

SERVER = Server(name="a")


def test_a_server_has_the_limits_of_the_documentation_and_nothing_else_is_switched_on():
    text = (Path(__file__).parents[1] / "docs" / "failures.md").read_text(encoding="utf-8")
    documented = {name: float(seconds) for name, seconds in re.findall(r"\| `(\w+)` \| (\d+) s \|", text)}
    assert documented.keys() == {"timeout", "sse_timeout", "list_timeout", "call_timeout", "call_timeout_max"}
    sizes = {"max_line_mb": 256, "inline_limit_kb": 256}
    told = {"name": "a", "transport": "stdio", "protocol": "auto", "trust": "pin", **documented, **sizes}
    assert {key: value for key, value in attrs.asdict(SERVER, recurse=False).items() if value} == {
        **told,
        "tools": ToolFilter(),
        "network": SERVER.network,
    }
    assert not any(Server(name="a", transport=each).is_remote for each in ("stdio", "uds", "pipe"))
    assert all(Server(name="a", transport=each).is_remote for each in ("http", "sse"))


def test_a_filter_allows_what_it_names_and_does_not_deny():
    filters = ToolFilter(), ToolFilter(("get_*",), ()), ToolFilter(("set_*",), ()), ToolFilter((), ("get_*",))
    assert [each.allows("get_it") for each in filters] == [True, True, False, False]


def test_a_record_has_changed_once_a_sync_found_another_version_than_was_approved():
    one, other = Tool(name="t"), Tool(name="t", description="New")
    record = ToolRecord(server="s", node="n", tool=one)
    assert (record.found is one, record.is_approved, record.has_changed) == (True, True, False)
    assert attrs.evolve(record, found=other).has_changed
    assert not attrs.evolve(record, found=other, is_approved=False).has_changed


def test_a_result_with_a_structure_has_one():
    for result in (CallResult(structured={"n": 1}), attrs.evolve(CallResult(), structured=0)):
        assert result.has_structured


def test_a_launch_redacts_its_secrets_and_reports_those_that_it_learns():
    told = []
    launch = Launch(server=SERVER, secrets=("s3cret-1",), unset=("A",), empty=("B",), report=told.extend)
    launch.learn(["s3cret-2", ""])
    assert launch.redactor.text("s3cret-1 s3cret-2") == "*** ***"
    assert told == ["s3cret-2"]
    assert launch.blank_notes == ("Not set and passed as empty: A", "Set to the empty string: B")
    assert launch.blank_steps[1] == "if it needs B: pflow settings set B -"
    assert Launch(server=SERVER).blank_notes == ()
    assert launch.key == Launch(server=SERVER).key != Launch(server=Server(name="a", command="x")).key


@pytest.mark.parametrize(
    ("given", "action"),
    [
        ({"status": 403}, "auth_failed"),
        ({"status": 404}, "resource_missing"),
        ({"status": 504}, "timeout"),
        ({"status": 429}, "rate_limited"),
        ({"code": -32001}, "timeout"),
        ({"code": -32002}, "resource_missing"),
        ({"status": 500, "code": 7}, "error"),
        ({"status": 404, "action": "timeout"}, "timeout"),
    ],
)
def test_the_action_of_a_failure_is_that_of_its_status_or_code(given, action):
    assert McpError("failed", where=Where(), **given).action == action


def test_a_failure_has_the_facts_that_are_known():
    where = Where(server="s", tool="a b", phase="list")
    error = ConnectionFailed("gone", where=where, next_step="Wait", status=0, stderr="", code=None)
    assert (error.kind, error.ran, error.retryable) == ("connection", "not ran", False)
    known = {"server": "s", "tool": "a b", "phase": "list", "status": 0}
    assert (error.details, error.suggestions) == (known, ("Wait",))
    assert McpError("gone", where=Where()).suggestions == ()
    assert where.info_command == "pflow mcp info 'mcp-s-a b'"
    assert Where(server="s", tool="t", node="mcp-x").info_command == "pflow mcp info mcp-x"


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("late\nsee", "late (tool t on server s)\nsee"),
        ("Server s is late", "Server s is late (tool t)"),
        ("Server s-2 and tool t-1 are late", "Server s-2 and tool t-1 are late (tool t on server s)"),
        ("tool t of server s is late", "tool t of server s is late"),
    ],
)
def test_a_failed_call_names_its_tool_and_server_once(message, shown):
    assert str(DeadlineExceeded(message, where=Where(server="s", tool="t"))) == shown
    assert str(CallFailed(message, where=Where())) == message
