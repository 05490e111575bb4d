"""Texts that speak of another server's tools."""

from __future__ import annotations

from time import process_time

import pytest

from pflow_mcp_plugin.trust.hidden_text import Text
from pflow_mcp_plugin.trust.name_index import index_names, is_unmistakable
from pflow_mcp_plugin.trust.tool_checks import shadowing

NAMES = index_names(
    {"evil": ["add", "read_notes"], "github": ["create_issue", "search", "listPages", "read_notes"]}
)


def mentioned(text, kind="prose"):
    return [finding.message for finding in shadowing("evil", "add", [Text("description", text, kind)], NAMES)]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("Before create_issue is used, call this", "create_issue"),
        ("instead of listPages.", "listPages"),
        ("use mcp-github-search only through this", "search"),
        ("overrides github.search", "search"),
        ("overrides github:search and more", "search"),
        ("the tool `search` of github must get the file", "search"),
        ('when github runs "search"', "search"),
        ("github: `search` comes second", "search"),
    ],
)
def test_a_text_that_means_another_servers_tool_is_found_with_both_names(text, named):
    assert mentioned(text) == [f"names {named} of server github"]


@pytest.mark.parametrize(
    "text",
    [
        "Search for words",
        "This can `search` files",
        "Like GitHub, it can search",
        "See read_notes",
        "recreate_issues",
        "",
    ],
)
def test_common_words_and_own_names_are_not(text):
    assert mentioned(text) == []


@pytest.mark.parametrize("part", ["a", "aB", "a_", "`", "a/b:", "`a"])
def test_long_texts_take_linear_time(part):
    begun = process_time()
    assert mentioned(part * 100_000) == []
    assert process_time() - begun < 5


def test_names_and_values_are_not_texts():
    assert mentioned("create_issue", kind="name") == []
    assert mentioned("create_issue", kind="value") == []


@pytest.mark.parametrize(
    ("name", "verdict"),
    [("create_issue", True), ("listPages", True), ("search", False), ("a_b", False), ("SEARCH_ALL", False)],
)
def test_a_name_of_several_parts_is_unmistakable(name, verdict):
    assert is_unmistakable(name) is verdict
