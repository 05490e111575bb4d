"""A workflow that calls itself through other servers is recognized."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from programs import script_server

from pflow_mcp_plugin import workflow_chain
from pflow_mcp_plugin.contract import PflowError

pytestmark = pytest.mark.programs

_NAMED = "state['initialize']['serverInfo']['name'] = {!r}"
_SEEN = "request['params'].get('_meta', {}).get('io.github.pflow/workflows')"
_ECHO_META = f"reply({{'content': [], 'structuredContent': {{'workflows': {_SEEN}}}}})"


@pytest.fixture
def host(pflow_host):
    pflow_host.host.library.save("daily", {"nodes": [{"id": "echo", "params": {"message": "hi"}}]})
    return pflow_host.host


@pytest.fixture
def call_of(pflow_host):
    """Return what a server of a name sees of the chain when a workflow of a name calls it."""
    scripted = Path(__file__).parent / "client" / "scripted.py"

    def call(server, workflow):
        if not pflow_host.nodes():
            named = {"AT_START": _NAMED.format(server)}
            pflow_host.add(server, script_server(scripted, _ECHO_META, env=named))
            pflow_host.sync(server)
        document = {"nodes": [{"id": "seen", "type": f"mcp-{server}-act"}]}
        outcome = pflow_host.host.runner.run(document, {}, name=workflow)
        assert outcome.success, outcome.error
        return outcome.outputs["result"]["workflows"]

    return call


def test_a_pflow_server_receives_the_workflows_above(call_of, host):
    assert call_of("pflow", "daily") == [workflow_chain.identifier(host, "daily")]


def test_any_other_server_receives_nothing_of_them(call_of):
    assert call_of("other", "daily") is None


def test_a_workflow_that_is_not_saved_has_an_identifier_of_its_own_in_each_run(call_of, host):
    once, again = call_of("pflow", "draft.json"), call_of("pflow", "draft.json")
    assert len({*once, *again, workflow_chain.identifier(host, "draft.json")}) == 3


def test_the_chain_of_a_run_ends_with_its_own_workflow(host):
    above = ("a" * 32,)
    run = SimpleNamespace(
        run_id="1",
        host=host,
        workflow=SimpleNamespace(name="daily"),
        origin=SimpleNamespace(above=above),
    )
    assert workflow_chain.below(run) == (*above, workflow_chain.identifier(host, "daily"))


def test_an_identifier_differs_by_workflow_and_library(host, tmp_path):
    other = SimpleNamespace(paths=SimpleNamespace(data=tmp_path / "other"))
    names = {
        workflow_chain.identifier(where, name) for where in (host, other) for name in ("daily", "weekly")
    }
    assert len(names) == 4


def test_a_circle_is_named_with_the_workflows_that_are_known(host):
    workflow_chain.require_no_circle(host, ("a" * 32,), "daily")
    above = ("a" * 32, workflow_chain.identifier(host, "daily"), "b" * 32)
    with pytest.raises(PflowError) as caught:
        workflow_chain.require_no_circle(host, above, "daily")
    assert caught.value.kind == "validation"
    assert "daily → a workflow of another pflow → daily" in caught.value.message
    assert caught.value.details["circle"] == ["daily", "a workflow of another pflow", "daily"]


def test_a_call_without_a_chain_has_an_empty_one():
    assert workflow_chain.received(None) == workflow_chain.received({"other": 1}) == ()


def test_a_chain_of_sixteen_takes_no_further_workflow():
    most = [f"{number:032x}" for number in range(workflow_chain.DEEPEST)]
    assert len(workflow_chain.received({workflow_chain.META_KEY: most[1:]})) == 15
    with pytest.raises(PflowError, match="16 workflows call each other") as caught:
        workflow_chain.received({workflow_chain.META_KEY: most})
    assert caught.value.kind == "validation"


@pytest.mark.parametrize("chain", ["a" * 32, [3], ["x" * 32], ["a" * 33], None])
def test_a_malformed_chain_is_refused(chain):
    with pytest.raises(PflowError, match="must be a list"):
        workflow_chain.received({workflow_chain.META_KEY: chain})
