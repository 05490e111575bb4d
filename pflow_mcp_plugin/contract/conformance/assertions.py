"""Steps and assertions that several conformance checks share."""

from __future__ import annotations

from collections.abc import Callable

from pflow_mcp_plugin.contract.conformance.trial import Subject
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.contract.outcomes import Outcome
from pflow_mcp_plugin.contract.problems import PflowError
from pflow_mcp_plugin.contract.registries import Registry


def node(node_id: str = "one", node_type: str = "poem-recite", **params: JSON) -> dict[str, JSON]:
    """Return a workflow's node, for the assertions that several conformance checks share."""
    return {"id": node_id, "type": node_type, "params": params}


def run_nodes(subject: Subject, *nodes: JSONObject, **inputs: object) -> Outcome:
    """Run these nodes, for the assertions that several conformance checks share; inputs have any type."""
    assert subject.host.runner is not None
    declared = {name: {"type": "any"} for name in inputs}
    return subject.host.runner.run({"nodes": list(nodes), "inputs": declared}, inputs, name="conformance")


def refusal(subject: Subject, *nodes: JSONObject) -> PflowError:
    """Assert that the host refuses a workflow before anything has run; return the error."""
    try:
        outcome = run_nodes(subject, *nodes)
    except PflowError as error:
        return error
    raise AssertionError(f"the workflow was not refused: {outcome}")


def not_found(registry: Registry, node_type: str) -> PflowError:
    """Assert that a registry does not find a node; return the error that says so."""
    try:
        found = registry.get(node_type)
    except PflowError as error:
        return error
    raise AssertionError(f"{node_type} should not exist, it is {found}")


def raised(call: Callable[[], object]) -> PflowError:
    """Assert that a call raises what it should; return the error."""
    try:
        returned = call()
    except PflowError as error:
        return error
    raise AssertionError(f"there should have been an error, not {returned}")


def assert_named(text: str, *names: str) -> None:
    """Assert that each of these names occurs in a string."""
    for name in names:
        assert name in text, f"{name!r} is not named in {text!r}"
