"""Server configs of an older pflow are read in each of their shapes."""

from __future__ import annotations

import json

import pytest

from pflow_mcp_plugin.config.server_input import servers_in, unmigrated

GITHUB = {"type": "stdio", "command": "npx", "args": ["@modelcontextprotocol/github"]}


@pytest.mark.parametrize(
    "document",
    [
        {"servers": {"github": {"transport": "stdio", **GITHUB}}},
        {"mcpServers": {"github": GITHUB}},
        {"server_id": "github", "transport": "stdio", "command": "npx", "args": GITHUB["args"]},
        [{"server_id": "github", "transport": "stdio", "command": "npx", "args": GITHUB["args"]}],
    ],
)
def test_every_older_shape_of_a_config_has_the_same_server(document):
    table = dict(servers_in(document, "It").tables["github"])
    table.pop("transport", None)
    assert table == GITHUB


def test_a_remote_server_keeps_its_authorization():
    auth = {"token_env": "GITHUB_ENTERPRISE_TOKEN", "scopes": ["repo:read"]}
    kept = {"url": "https://api.github.internal/mcp", "auth": auth}
    document = {"server_id": "github", "transport": "sse", **kept}
    assert servers_in(document, "It").tables == {"github": {"type": "sse", **kept}}


def test_files_of_an_older_pflow_are_found_and_told_of_until_their_servers_are_configured(tmp_path):
    folder = tmp_path / ".pflow"
    folder.mkdir()
    servers = dict.fromkeys(("one", "two", "three", "four"), GITHUB)
    (folder / "mcp-servers.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    (folder / "mcp.json").write_text("{", encoding="utf-8")  # unreadable: nothing is known about it
    (problem,) = unmigrated(tmp_path, ["two"])
    assert "3 servers: one, three, four" in problem.message
    older = folder / "mcp-servers.json"
    assert problem.suggestion == f"Configure what it has: pflow registry migrate-mcp --from {older}"
    assert not [*unmigrated(tmp_path, servers)]
