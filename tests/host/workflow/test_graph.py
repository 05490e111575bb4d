from __future__ import annotations

from itertools import pairwise

from pflow_mcp_plugin.host.workflow.document_reader import read_document
from pflow_mcp_plugin.host.workflow.findings import Findings
from pflow_mcp_plugin.host.workflow.graph import Graph


def graph(ids, *edges, start=None):
    parts = [dict(zip(("from", "to", "action"), edge.split(), strict=False)) for edge in edges]
    workflow = {
        "nodes": [{"id": node_id, "type": "t"} for node_id in ids],
        "edges": parts,
        "start_node": start,
    }
    return Graph.of(read_document(workflow, Findings()))


def test_certain_nodes_are_those_on_the_default_path():
    branching = graph("abcde", "a b", "a e error", "b c", "c d other")
    assert branching.certain() == {"a", "b", "c"}
    assert graph("ab", "a b", start="b").certain() == {"b"}
    assert graph("ab", "a b", "b a").certain() == {"a", "b"}
    assert graph("").certain() == frozenset()


def test_what_ran_before_is_what_leads_to_a_node_from_the_start():
    joined = graph("abcdx", "a b", "a c other", "b d", "c d", "x d")
    assert joined.before("d") == {"a", "b", "c"}
    assert joined.before("a") == set()
    assert joined.reachable == {"a", "b", "c", "d"}
    assert graph("ab", "a b", "b a other").before("a") == {"a", "b"}


def test_a_loop_without_exit_traps_what_leads_into_it():
    trapped = graph("abc", "a b", "b c", "c b")
    assert trapped.trapped() == {"a", "b", "c"}
    assert trapped.default_loops() == [("b", "c")]
    assert graph("abc", "a b", "b a", "b c done").trapped() == set()


def test_a_long_chain_is_no_problem():
    ids = [f"n{index}" for index in range(3000)]
    chain = graph(ids, *(f"{one} {other}" for one, other in pairwise(ids)))
    assert len(chain.certain()) == 3000
    assert len(chain.before("n2999")) == 2999
