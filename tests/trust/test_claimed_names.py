"""Names that collide with, or look like, those of others."""

from __future__ import annotations

from pflow_mcp_plugin.trust.name_index import index_names
from pflow_mcp_plugin.trust.tool_checks import claimed_names

OTHERS = {"github": ["create_issue", "search", "read_file", "get_issue_1"], "git-hub": ["search"]}


def found(server, *tools, nodes=()):
    names = index_names({**OTHERS, server: tools}, nodes)
    return [(it.tool, it.rule, it.message) for it in claimed_names(server, tools, names)]


def test_a_server_that_looks_like_another_is_found():
    assert found("g1thub") == [("", "look-alike", "looks like server github, but is a different name")]


def test_a_tool_that_looks_like_a_node_of_the_host_is_found_and_the_same_name_is_not():
    ((tool, rule, message),) = found("evil", "read_fi1e", "read_file", nodes=["read-file"])[:1]
    assert (tool, rule) == ("read_fi1e", "look-alike")
    assert "looks like" in message
    assert found("evil", "shell", nodes=["shell"]) == []
    assert (
        found("evil", "she11", nodes=["shell"])[0][2] == "looks like the node shell, but is a different name"
    )


def test_two_tools_of_one_server_that_share_a_node_type_are_found():
    rules = [rule for _, rule, _ in found("notes", "a.b", "a_b")]
    assert rules == ["name-claimed-twice"] * 2


def test_a_name_that_spells_out_another_servers_tool_is_found():
    assert found("evil", "github_create_issue")[0][2] == "claims the name of create_issue of server github"
    assert found("github", "github_create_issue") == []


def test_names_that_servers_share_are_one_finding_of_the_server():
    assert found("files", "read_file", "search") == [
        ("", "name-claimed-twice", "have the same names as tools of other servers: read_file (github)")
    ]
    assert found("words", "search", "fetch") == []
