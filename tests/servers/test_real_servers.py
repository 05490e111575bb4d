"""The servers that the other tests lean on: they start, answer, and end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

pytest.importorskip("mcp")
pytestmark = pytest.mark.servers


def _tools(server):
    """Return the names of a server's tools, asked with the SDK's own client."""
    from mcp import Client

    async def ask():
        async with Client(server) as client:
            return {tool.name for tool in (await client.list_tools()).tools}

    return asyncio.run(ask())


def _over_stdio(command):
    from mcp import StdioServerParameters

    return StdioServerParameters(command=command[0], args=command[1:])


def test_the_reference_server_answers_over_stdio(everything_command):
    assert {"echo", "get-sum"} <= _tools(_over_stdio(everything_command))


def test_the_reference_server_answers_over_http(everything_http):
    assert {"echo", "get-sum"} <= _tools(everything_http)


def test_the_filesystem_server_answers(filesystem_command):
    assert {"read_text_file", "write_file"} <= _tools(_over_stdio(filesystem_command))


def test_the_time_server_answers(time_command):
    assert _tools(_over_stdio(time_command)) == {"convert_time", "get_current_time"}


def test_the_git_server_answers(git_command):
    assert {"git_status", "git_commit"} <= _tools(_over_stdio(git_command))


@pytest.mark.timeout(600)  # its install takes minutes
def test_the_duckdb_server_answers(duckdb_command):
    assert "execute_query" in _tools(_over_stdio(duckdb_command))


def test_the_http_server_is_reached_on_loopback_only(everything_http):
    port = int(everything_http.rsplit(":", 1)[1].split("/")[0])
    listening = [
        line.split()[1]
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{table}").read_text(encoding="ascii").splitlines()[1:]
        if line.split()[3] == "0A" and line.split()[1].endswith(f":{port:04X}")
    ]
    assert listening == [f"0100007F:{port:04X}"]
