"""Recipes: what is recorded of a step to find out later whether it happened, and how they are tried.

A recipe runs a read-only node on arguments of the step, and judges what it returns. What it needs is in the
record, as a resumed run has not reached the step yet.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from pflow_mcp_plugin.contract import THE_USER, Decision, Entry, Host, PflowError, Problem, Recipe, RunOptions
from pflow_mcp_plugin.contract.validators import is_reserved
from pflow_mcp_plugin.host.running.result_key import NotKept, exact_json
from pflow_mcp_plugin.host.workflow.findings import said
from pflow_mcp_plugin.host.workflow.workflow_check import trusted

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract import Runner, RunOrigin
    from pflow_mcp_plugin.host.running.run_record import RecordedStep

_LARGEST = 1 << 20
"""The most bytes of a step's arguments that are recorded for its recipe; with more, the user is asked."""


def recorded_recipe(recipe: Recipe, given: Mapping[str, Any], redacted: Callable[[Any], Any]) -> str:
    """Return the recipe that verifies a step as JSON text, with its arguments, for the record of the run.

    It is empty if the step has arguments that cannot be kept: secret, large, or not JSON.
    """
    arguments = {name: it for name, it in given.items() if not is_reserved(name)}
    try:
        text = exact_json({**attrs.asdict(recipe), "arguments": arguments}, "a parameter").decode()
    except NotKept:
        return ""
    return text if len(text) <= _LARGEST and redacted(arguments) == arguments else ""


def try_recipes(
    steps: Sequence[RecordedStep],
    decide: Callable[[Iterable[tuple[str, Decision]]], object],
    runner: Runner,
    host: Host,
    options: RunOptions,
    origin: RunOrigin = THE_USER,
) -> None:
    """Find out by their recipes whether open steps happened, and decide about those that this settles.

    The `error` of any other step says why its recipe cannot.
    """
    # Neither the lock file nor the run's limits apply to this node.
    runner = runner.with_options(RunOptions(trust_readonly=options.trust_readonly))
    for step in steps:
        if not step.recipe:
            continue
        content = json.loads(step.recipe)
        arguments = content.pop("arguments")
        recipe = Recipe(**content)
        try:
            entry = host.registry.get(recipe.node)
            entry = trusted(entry) if options.trust_readonly else entry
            happened, result = _tried(recipe, entry, arguments, runner, origin)
        except PflowError as error:
            reason = f"its recipe does not tell whether it happened: {said(error)}"
            step.error = f"{step.error}; {reason}" if step.error else reason
            continue
        decision = Decision(choice="done", result=result) if happened else Decision(choice="not done")
        decide([(step.place, decision)])
        message = f"{step.place} {'happened' if happened else 'did not happen'}, by {recipe.node}"
        host.report(Problem(message=message, severity="warning", kind="execution"))


def _tried(
    recipe: Recipe, entry: Entry, arguments: Mapping[str, Any], runner: Runner, origin: RunOrigin
) -> tuple[bool, Any]:
    from pflow_mcp_plugin.host.workflow.expressions import parsed

    if entry.purity != "flow_safe":
        raise PflowError(f"{recipe.node} is not trusted to be read-only")
    seen: dict[str, Any] = {"arguments": arguments}
    params = {name: parsed(text).value(seen, seen) for name, text in recipe.params.items()}
    given = {name: it for name, it in params.items() if it is not None}
    outcome = runner.run_node(recipe.node, given, origin=origin).outcome
    happened = parsed(recipe.happened)
    failure = outcome.error
    # Only an answer of the other side is evidence, and only to a recipe that asks for it.
    if failure is not None and not (failure.ran == "ran" and "error" in happened.positions):
        raise failure
    seen |= {"result": outcome.outputs.get("result"), "error": failure and failure.message}
    value = happened.value(seen, seen)
    if not isinstance(value, bool):
        found = f"it failed: {said(failure)}" if failure else "its result fits neither case"
        raise PflowError(f"{recipe.node} leaves it open: {found}")
    result = parsed(recipe.result).value(seen, seen) if value and recipe.result else None
    return value, result
