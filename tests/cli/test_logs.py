"""`pflow mcp logs`, run as a host runs it."""

from __future__ import annotations

import os

import pytest

from pflow_mcp_plugin.cli.server_health import logs
from pflow_mcp_plugin.client.server_process import keep_stderr
from pflow_mcp_plugin.config.locations import stderr_folder


@pytest.fixture
def kept(desk):
    """Two files of a server, the older one written first."""
    desk.write('[mcpServers.clock]\ncommand = "a"\n')
    folder = stderr_folder(desk.paths)
    paths = [keep_stderr(folder, "clock", text) for text in ("first\n", "second \x1b[31mred\n")]
    for age, path in enumerate(paths):
        os.utime(path, (age, age))
    return paths


def test_the_newest_is_shown_without_what_a_terminal_would_obey(desk, kept):
    report = desk.run(logs, "clock")
    assert report.data == [{"path": str(kept[1]), "text": "second \x1b[31mred\n"}]
    assert "\x1b" not in report.render()
    assert report.render().startswith(f"{kept[1]}\nsecond ")


def test_all_are_shown_oldest_first(desk, kept):
    assert [item["path"] for item in desk.run(logs, "clock", "--all").data] == [str(path) for path in kept]


def test_of_a_server_without_any_it_says_what_is_kept_and_where(desk):
    desk.write('[mcpServers.clock]\ncommand = "a"\n')
    shown = desk.run(logs, "clock").render()
    assert shown.startswith("No stderr of server clock is kept. ")
    assert str(stderr_folder(desk.paths) / "clock") in shown
    assert "pflow mcp test clock; " in shown
