"""The action of each failure, as `docs/workflows.md` lists them, and what is shown of a handled one."""

from __future__ import annotations

import tomllib

import pytest
import tomli_w

ROUTES = ("error", "timeout", "rate_limited", "auth_failed", "resource_missing")


@pytest.fixture
def routed(scripted, pflow, pflow_home, workflow):
    """Run a tool of a server whose config got `changes` after its sync; returns the route taken."""

    def run(changes=None, **options):
        scripted("go", trust="auto", **options)
        config = pflow_home / "config" / "mcp-servers.toml"
        document = tomllib.loads(config.read_text())
        document["mcpServers"]["odd"] |= changes or {}
        config.write_text(tomli_w.dumps(document))
        nodes = [("call", "mcp-odd-go", {}), *((route, "echo", {"message": route}) for route in ROUTES)]
        edges = [{"from": "call", "to": route, "action": route} for route in ROUTES]
        done = pflow("run", workflow(*nodes, edges=edges))
        assert done.exit_code == 0, done.stderr
        return done.stdout.strip()

    return run


def test_a_server_that_cannot_be_started_takes_the_action_error(routed, pflow):
    assert routed({"command": "no-such-program"}) == "error"
    lines = pflow("trace", "show").stdout.splitlines()
    assert any(line.startswith("!  call") and "handled: Command not found" in line for line in lines)
    shown = pflow("trace", "show", "--step", "call").stdout
    assert "handled" in shown.splitlines()[0]
    assert shown.count("Command not found") == 1


def test_a_server_that_does_not_finish_its_start_in_time_takes_the_action_error(routed):
    assert routed({"command": "sleep", "args": ["60"], "startup_timeout": 0.3}) == "error"


def test_a_call_that_is_not_answered_in_time_takes_the_action_timeout(routed):
    assert routed({"call_timeout": 0.3}, env={"ANSWER": "hang"}) == "timeout"


def test_a_tool_that_asks_for_fewer_calls_takes_the_action_rate_limited(routed):
    assert routed(env={"ANSWER": "limited"}) == "rate_limited"


def test_a_tool_that_reports_a_failure_takes_the_action_error(routed):
    assert routed(env={"ANSWER": "not-found"}) == "error"
