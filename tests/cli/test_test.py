"""`pflow mcp test`, run as a host runs it, on real servers."""

from __future__ import annotations

import sys

import pytest

from pflow_mcp_plugin.cli import test as testing
from pflow_mcp_plugin.cli.sync import sync
from pflow_mcp_plugin.errors import McpError

DEMO = (
    f'[mcpServers.demo]\ncommand = "{sys.executable}"\nargs = ["-m", "pflow_mcp_plugin.server.demo_server"]\n'
)

pytestmark = pytest.mark.usefixtures("no_leftovers")


def test_each_phase_is_timed_and_nothing_is_kept(desk):
    desk.write(DEMO)
    report = desk.run(testing.test, "demo")
    assert report.error is None
    assert list(report.data["milliseconds"]) == ["start", "handshake", "list"]
    assert report.data["tools"] > 3
    assert report.data["protocol"]
    assert report.data["memory_mb"] is None or report.data["memory_mb"] > 1
    assert report.data["sync_due"]
    assert report.render().startswith("demo: works")
    assert "pflow mcp sync demo" in report.render()
    desk.run(sync, "demo")
    assert not desk.run(testing.test, "demo").data["sync_due"]


def test_a_server_that_does_not_start_is_exit_code_3_with_the_phase(desk):
    desk.write(f'[mcpServers.bad]\ncommand = "{sys.executable}"\nargs = ["-c", "raise SystemExit(3)"]\n')
    report = desk.run(testing.test, "bad")
    assert report.error.exit_code == 3
    assert "exited 3" in report.error.message
    assert report.error.where.phase in ("start", "handshake")


def test_a_name_that_is_not_configured_is_said(desk):
    with pytest.raises(McpError):
        desk.run(testing.test, "demo")
