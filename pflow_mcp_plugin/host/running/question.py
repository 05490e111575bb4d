"""What a node `ask` asks in a run: its question, and the steps that follow it, with their exact arguments.

The arguments are part of the node's identity, so an answer is used again only while they are the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import partial
from shlex import quote
from typing import Any

import attrs

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.running.attempts import Attempts, argument_types
from pflow_mcp_plugin.host.running.current_run import CurrentRun
from pflow_mcp_plugin.host.running.shared_store import NodeAwareSharedStore
from pflow_mcp_plugin.host.workflow.compilation import PlannedNode
from pflow_mcp_plugin.host.workflow.templates import named, or_text, resolve
from pflow_mcp_plugin.host.workflow.workflow_reads import ASKING
from pflow_mcp_plugin.terminal.printable_text import abbreviated

_FOLLOWING = "__following__"
"""The parameter with the steps that follow: a run recognizes a question by it, too."""
_LONGEST = 4_000
"""Characters of an argument that the text of a question shows."""


def with_question(planned: PlannedNode, following: Iterable[PlannedNode], attempts: Attempts) -> PlannedNode:
    """Return a node `ask` with its question in this run, and the exact arguments of the steps that follow."""
    steps: list[dict[str, Any]] = [
        {"step": node.id, "type": node.ref.type, "params": _arguments(node, planned.id, attempts)}
        for node in following
    ]
    asking = partial(_answered, attempts.run, planned, steps)
    injected = {**planned.ref.injected, ASKING: asking, _FOLLOWING: steps}
    return attrs.evolve(planned, ref=attrs.evolve(planned.ref, injected=injected))


def _arguments(node: PlannedNode, asking: str, attempts: Attempts) -> dict[str, Any]:
    values = attempts.values
    written = {**node.ref.params, **{place.name: place.value for place in node.constructs.templates}}
    later = {asking, *node.constructs.names}
    store = NodeAwareSharedStore(
        values.root, node.mapping.inputs, lookup=values.find, fit=argument_types(node.ref.entry)
    )
    if not node.constructs.repeats and not any(part.root in later for part in named(written)):
        try:
            params = attempts.params(node, store)
        except PflowError:  # the step will say why
            params = {**written}
    else:
        # A template that needs the answer stays as text.
        known = or_text(values.lookup)
        params = resolve(written, lambda it: it.text if it.root in later else known(it))
    names = set(node.reads) - params.keys()
    return {**params, **{name: store[name] for name in sorted(names) if name in store}}


def _answered(
    run: CurrentRun,
    planned: PlannedNode,
    steps: Sequence[dict[str, Any]],
    question: str,
    choices: Sequence[str],
) -> str:
    """Ask the question, with the steps that follow it; return the answer. Without one, the run ends."""
    step = run.current_step()
    place = step.place if step else planned.ref.id
    shown = run.recorder.shown(list(steps))
    lines = [f"{place} asks: {question}"]
    for it in steps:
        texts = {
            name: json.dumps(given, ensure_ascii=False, default=str) for name, given in it["params"].items()
        }
        params = ", ".join(f"{name}={abbreviated(text, _LONGEST)}" for name, text in texts.items())
        lines.append(f"Then: {it['step']} ({it['type']}) {params}")
    text = "\n".join(lines)
    if (answer := run.watcher.ask(run.redactor.text(text), choices)) is not None:
        return answer
    one = f" ({', '.join(choices)})" if choices else ""
    error = PflowError(
        text,
        details={"step": place, "question": question, "choices": list(choices), "preview": shown},
        suggestions=(f"Answer{one} and go on: pflow resume {run.run_id} --answer {quote(f'{place}=VALUE')}",),
        ran="not ran",
    )
    if step is None or not step.asks(error):
        error.suggestions = ("Run it on a terminal, or let it leave a record: without --no-trace",)
    raise error
