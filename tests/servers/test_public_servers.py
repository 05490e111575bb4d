"""The script over public servers: its list, its steps with a bundled server, its table and its options."""

from __future__ import annotations

import re
import sys

import pytest
from public_servers import PublicServer, check, desk, read_list

DEMO = PublicServer(
    name="demo",
    command=(sys.executable, "-m", "pflow_mcp_plugin.server.demo_server"),
    tool="echo",
    arguments={"value": "{page}"},
    expect="Goodbye",
)


def test_every_server_of_the_list_has_an_exact_version_and_a_result_to_expect():
    servers = read_list()
    assert len(servers) >= 30
    assert {server.transport for server in servers} == {"stdio", "http", "sse"}
    for server in servers:
        assert re.fullmatch(r"(@[\w-]+/)?[\w-]+@\d[\w.]+", server.npm) or re.fullmatch(
            r"[\w-]+==\d[\w.]+", server.pypi
        ), server.name
        assert re.fullmatch(r"[a-z0-9-]+", server.name)
        assert bool(server.tool) == bool(server.expect), server.name


@pytest.mark.programs
def test_a_server_is_added_synced_tested_and_called_and_a_result_that_differs_is_a_failure():
    with desk() as place:
        row = check(DEMO, place)
    assert row.outcomes == {**dict.fromkeys(("add", "sync", "test"), "ok"), "call": "failed"}, row.remark
    assert row.remark.startswith("call: 'Goodbye' is not in ")
    assert "http://127.0.0.1:" in row.remark
    assert row.failed
    assert (row.tools, row.protocol) == (6, "2026-07-28")
    assert set(row.seconds) == {"sync", "call"}
