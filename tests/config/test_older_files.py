"""Configs and registries of an older pflow are read in each of their shapes."""

from __future__ import annotations

import json

import pytest

from pflow_mcp_plugin.config.older_files import command_line, default_files, files_in, read_older, unmigrated
from pflow_mcp_plugin.contract import PflowError

GITHUB = {"type": "stdio", "command": "npx", "args": ["@modelcontextprotocol/github"]}
WRAPPER = {
    "node_id": "mcp-github-search-code",
    "type": "mcp_wrapper",
    "mcp_config": {
        "server_id": "github-server",
        "tool_name": "search_code",
        "transport": "stdio",
        "command": "mcp-github --read-only",
        "version": "1.2.0",
        "manifest_hash": "sha256:abc",
    },
}
TOOL = {
    "class_name": "MCPNode",
    "module": "pflow.nodes.mcp.node",
    "file_path": "virtual://mcp",
    "interface": {"params": [{"name": "title", "type": "str"}]},
}


@pytest.fixture
def older(tmp_path):
    """Write a document as an older file and read it."""

    def write_and_read(document):
        path = tmp_path / "mcp-servers.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        return read_older(path)

    return write_and_read


@pytest.mark.parametrize(
    "document",
    [
        {"servers": {"github": {"transport": "stdio", **GITHUB}}},
        {"mcpServers": {"github": GITHUB}},
        {"name": "github", "transport": "stdio", "command": "npx", "args": GITHUB["args"]},
        {"server_id": "github", "transport": "stdio", "command": "npx", "args": GITHUB["args"]},
        [{"server_id": "github", "transport": "stdio", "command": "npx", "args": GITHUB["args"]}],
    ],
)
def test_every_older_shape_of_a_config_has_the_same_server(older, document):
    table = dict(older(document).tables["github"])
    table.pop("transport", None)
    assert table == GITHUB


def test_a_remote_server_keeps_its_authorization(older):
    auth = {"token_env": "GITHUB_ENTERPRISE_TOKEN", "scopes": ["repo:read"]}
    document = {
        "server_id": "github",
        "transport": "sse",
        "url": "https://api.github.internal/mcp",
        "auth": auth,
    }
    assert older(document).tables == {
        "github": {"type": "sse", "url": "https://api.github.internal/mcp", "auth": auth}
    }


@pytest.mark.parametrize(
    "document", [WRAPPER, [WRAPPER], {"nodes": [WRAPPER]}, {"nodes": {WRAPPER["node_id"]: WRAPPER}}]
)
def test_the_server_of_a_wrapper_entry_is_found_with_its_command_split(older, document):
    if isinstance(document, list):
        document = {"nodes": document}
    found = older(document)
    assert found.tables == {
        "github-server": {"type": "stdio", "command": "mcp-github", "args": ["--read-only"]}
    }
    assert found.tools == ("mcp-github-search-code",)
    assert "version 1.2.0 of the server github-server is not kept" in str(found.notes[0])


def test_two_tools_that_disagree_about_their_server_are_named(older):
    other = {**WRAPPER, "mcp_config": {**WRAPPER["mcp_config"], "command": "other"}}
    found = older({"nodes": {"mcp-a": WRAPPER, "mcp-b": other}})
    assert found.tables["github-server"]["command"] == "mcp-github"
    assert any("disagree" in str(note) for note in found.notes)


def test_a_flat_registry_is_told_apart_into_tools_and_others(older):
    shell = {"class_name": "ShellNode", "module": "pflow.nodes.shell"}
    found = older({"mcp-github-create-issue": TOOL, "shell": shell})
    assert (found.tables, found.tools, found.others) == ({}, ("mcp-github-create-issue",), ("shell",))


def test_a_file_without_servers_is_refused(older):
    with pytest.raises(PflowError, match="not a server config"):
        older({"a": 1})


@pytest.mark.parametrize(("text", "message"), [("'a", "cannot be read"), ("  ", "is empty")])
def test_a_command_line_that_is_no_command_is_refused(text, message):
    with pytest.raises(PflowError, match=message):
        command_line(text)


def test_files_of_an_older_pflow_are_found_and_told_of_until_their_servers_are_configured(tmp_path):
    folder = tmp_path / ".pflow"
    folder.mkdir()
    servers = dict.fromkeys(("one", "two", "three", "four"), GITHUB)
    (folder / "mcp-servers.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    (folder / "mcp.json").write_text("{", encoding="utf-8")  # unreadable: nothing is known about it
    files = default_files(tmp_path)
    assert [path.name for path in files] == ["mcp-servers.json", "mcp.json"]
    assert files == files_in(folder)
    (problem,) = unmigrated(files, ["two"])
    assert "it has the servers one, three, four" in problem.message
    assert problem.suggestion == f"Configure what it has: pflow registry migrate-mcp --from {files[0]}"
    assert not [*unmigrated(files, servers)]
