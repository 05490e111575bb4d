"""The preset is found, its server starts, and a workflow uses it."""

from __future__ import annotations

from pflow_mcp_plugin.testing import assert_preset_starts

WORKFLOW = {
    "nodes": [{"id": "find", "type": "mcp-acme-tickets-search", "params": {"words": "login"}}],
    "outputs": {"found": {"source": "${find.result}"}},
}


def test_the_preset_is_found_and_its_server_starts():
    assert assert_preset_starts("acme-tickets", {"project": "TEST"}) == ("search",)


def test_a_workflow_runs_on_the_server(pflow_host):
    pflow_host.add_preset("acme-tickets", {"project": "TEST"})
    pflow_host.sync("acme-tickets")
    outcome = pflow_host.run(WORKFLOW)
    assert outcome.success, outcome.error
    assert outcome.outputs == {"found": ["TEST-1: The login fails"]}


def test_a_workflow_runs_without_the_server(pflow_host):
    def search(words: str) -> list[str]:
        return [f"a ticket about {words}"]

    tickets = pflow_host.stub("acme-tickets", [search])
    outcome = pflow_host.run(WORKFLOW)
    assert outcome.success, outcome.error
    assert outcome.outputs == {"found": ["a ticket about login"]}
    assert tickets.arguments("search") == [{"words": "login"}]
