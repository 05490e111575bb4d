from __future__ import annotations

import pytest

from pflow_mcp_plugin.host.planning.own_nodes_asked import asked_nodes, asks_for_text_only
from pflow_mcp_plugin.host.planning.task_literals import literals


@pytest.mark.parametrize(
    ("clause", "nodes"),
    [
        ("read notes.txt", ["read-file"]),
        ("open the file", ["read-file"]),
        ("summarize notes.txt", ["read-file", "llm"]),
        ("summarise it", ["llm"]),
        ("summarize it into notes.md", ["llm", "write-file"]),
        ("copy a.txt to b.txt", []),
        ("post a summary to the channel", ["llm"]),
        ("translate it into French", ["llm"]),
        ("save it to a file", ["write-file"]),
        ("write it to out.md", ["write-file"]),
        ("save a short digest on disk", ["llm", "write-file"]),
        ("run `git status`", ["shell"]),
        ("run the command git status", ["shell"]),
        ("echo it", ["echo"]),
        ("read the contract in lease.pdf", []),
        ("save the summary in the wiki", []),
        ("write a letter as a Word file", []),
        ("run the report", []),
        ("find the file name", []),
    ],
)
def test_a_node_is_asked_for_by_words_that_mean_it(clause, nodes):
    assert list(asked_nodes(clause, literals(clause))) == nodes


def test_a_text_to_be_made_needs_no_other_node():
    assert asks_for_text_only("create a short summary")
    assert not asks_for_text_only("post a summary to the channel")
