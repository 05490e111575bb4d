"""The script over public servers: its list, its steps with a bundled server, its table and its options."""

from __future__ import annotations

import json
import re
import sys

import attrs
import pytest

pytest.importorskip("mcp")
import public_servers
from public_servers import Desk, PublicServer, Row, check, chosen, desk, filled, read_list, table

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
    for server in servers:
        assert re.fullmatch(r"(@[\w-]+/)?[\w-]+@\d[\w.]+", server.npm) or re.fullmatch(
            r"[\w-]+==\d[\w.]+", server.pypi
        ), server.name
        assert re.fullmatch(r"[a-z0-9-]+", server.name)
        assert bool(server.tool) == bool(server.expect), server.name


def test_the_list_has_every_transport():
    assert {server.transport for server in read_list()} == {"stdio", "http", "sse"}


def test_the_named_servers_are_chosen_and_unknown_names_refused():
    servers = read_list()
    assert chosen(servers, []) == servers
    assert [server.name for server in chosen(servers, ["time", "git"])] == ["time", "git"]
    with pytest.raises(LookupError, match="not in the list: nowhere; it has everything, "):
        chosen(servers, ["time", "nowhere"])


def test_placeholders_are_replaced_at_any_depth():
    value = {"a": ["{work}/x", {"b": "{page}"}], "n": 3, "other": "{id}"}
    samples = {"work": "/w", "page": "http://p/"}
    assert filled(value, samples) == {"a": ["/w/x", {"b": "http://p/"}], "n": 3, "other": "{id}"}


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


def test_a_server_that_cannot_be_installed_is_a_failure(place: Desk, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "/nowhere")
    row = check(PublicServer(name="tiny", npm="tiny@1.0.0"), place)
    assert row.failed
    assert row.remark == "install: Node or npm is not installed"


def test_the_table_has_a_line_for_each_server_and_one_on_all():
    fine = Row(name="clock", version="1.0", protocol="2025-11-25", tools=2, seconds={"sync": 1.25, "call": 2})
    fine.outcomes |= dict.fromkeys(("add", "sync", "test", "call"), "ok")
    listed = Row(name="map", version="2.0", tools=3, remark="needs a key")
    listed.outcomes |= dict.fromkeys(("add", "sync", "test"), "ok")
    bad = Row(name="odd", version="3.0", remark="install: no such package")
    lines = table([fine, listed, bad]).splitlines()
    assert re.split(r"  +", lines[0])[-3:] == ["SYNC S", "CALL S", "REMARK"]
    assert re.split(r"  +", lines[1]) == ["clock", "1.0", "2025-11-25", "2", *["ok"] * 4, "1.2", "2.0"]
    assert re.split(r"  +", lines[2])[-6:] == ["ok", "ok", "-", "-", "-", "needs a key"]
    assert lines[4] == "3 servers, 5 tools, 1 called, 1 failed"


@pytest.mark.programs
def test_the_exit_code_tells_whether_one_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(
        public_servers, "read_list", lambda: [PublicServer(name="gone", command=("no-such",))]
    )
    assert public_servers.main(["--json"]) == 1
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["name"], row["outcomes"]["sync"]) == ("gone", "failed")
    with pytest.raises(SystemExit) as ended:
        public_servers.main(["--only", "nowhere"])
    assert ended.value.code == 2
