"""The script over public servers: its list, its steps with a bundled server, its table and its options."""

from __future__ import annotations

import re
import sys

import attrs
import pytest
from public_servers import Desk, PublicServer, check, desk, read_list

DEMO = PublicServer(
    name="demo",
    command=(sys.executable, "-m", "pflow_mcp_plugin.server.demo_server"),
    tool="echo",
    arguments={"value": "{page}"},
    expect="http://127.0.0.1:",
)


@pytest.fixture(scope="module")
def place():
    """A desk in a temporary folder."""
    with desk() as opened:
        yield opened


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
def test_a_server_is_added_synced_tested_and_called(place: Desk):
    row = check(DEMO, place)
    assert row.outcomes == dict.fromkeys(("add", "sync", "test", "call"), "ok"), row.remark
    assert row.tools > 1
    assert row.protocol == "2026-07-28"
    assert set(row.seconds) == {"sync", "call"}
    assert not row.failed


@pytest.mark.programs
def test_a_server_that_cannot_start_and_a_result_that_differs_are_failures_with_a_reason(place: Desk):
    gone = check(PublicServer(name="gone", command=("never-there",)), place)
    assert gone.outcomes == {"add": "ok", "sync": "failed", "test": "-", "call": "-"}
    assert gone.remark == "sync: Command not found: never-there (server gone)"
    other = check(attrs.evolve(DEMO, name="other", expect="Goodbye"), place)
    assert (other.failed, other.outcomes["call"]) == (True, "failed")
    assert other.remark.startswith("call: 'Goodbye' is not in ")
