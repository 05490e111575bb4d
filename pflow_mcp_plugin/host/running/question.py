"""What a node `ask` asks in a run: its question, and the steps that follow it, with their exact arguments.

The arguments, and the workflows that these steps run, are part of the node's identity, so an answer is used
again only while they are the same.
"""

from __future__ import annotations

import json
import os
import select
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from shlex import quote
from typing import Any

import attrs
import click

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.running.attempts import Attempts
from pflow_mcp_plugin.host.running.current_run import CurrentRun
from pflow_mcp_plugin.host.running.trace_recorder import RunWatcher
from pflow_mcp_plugin.host.workflow.compilation import PlannedNode
from pflow_mcp_plugin.host.workflow.templates import named, or_text, resolve
from pflow_mcp_plugin.host.workflow.workflow_reads import ASKING, expression_reads, param_expressions
from pflow_mcp_plugin.terminal.looks import continued, one_line, printable

_FOLLOWING = "__following__"
"""The parameter with the steps that follow: a run recognizes a question by it, too."""
_LONGEST = 4_000
"""Characters of an argument that the text of a question shows."""
_one_at_a_time = threading.Lock()  # parallel steps may ask, too


def with_question(
    planned: PlannedNode, following: Iterable[tuple[PlannedNode, set[str], Attempts]], run: CurrentRun
) -> PlannedNode:
    """Return a node `ask` with its question in this run, and the exact arguments of the steps that follow.

    Each of these comes with the ids of the nodes that lead to it, and the attempts of its workflow.
    """
    steps, workflows = list[dict[str, Any]](), list[Any]()
    for node, before, attempts in following:
        steps.append(_shown(node, _arguments(node, before, attempts)))
        # What a workflow does depends on more than is shown, such as its conditions.
        workflows += [it.sub.source for it in (node, *(node.sub.every() if node.sub else ())) if it.sub]
    asking = partial(_answered, run, planned, steps)
    injected = {**planned.ref.injected, ASKING: asking, _FOLLOWING: [steps, workflows]}
    return attrs.evolve(planned, ref=attrs.evolve(planned.ref, injected=injected))


def _shown(node: PlannedNode, params: dict[str, Any]) -> dict[str, Any]:
    """Return what the question shows of a step; inside a workflow that it runs, params are as written."""
    shown: dict[str, Any] = {"step": node.ref.id, "type": node.ref.type, "params": params}
    if node.sub:
        shown["nodes"] = [_shown(inner, _written(inner)) for inner in node.sub.nodes]
    return shown


def _written(node: PlannedNode) -> dict[str, Any]:
    return {**node.ref.params, **{place.name: place.value for place in node.constructs.templates}}


def _arguments(node: PlannedNode, before: set[str], attempts: Attempts) -> dict[str, Any]:
    values, written = attempts.values, _written(node)
    later, store = {*before, *node.constructs.names}, attempts.store(node)
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
    params |= {name: store[name] for name in sorted(names) if name in store}
    # What comes of an expression also depends on the values that it reads.
    spec = next(it for it in values.document.nodes if it.id == node.id)
    places = [*param_expressions(spec, node.ref.entry)]
    everything = values.everything(" ".join(place.text for place in places))
    read = {str(path[0]) for _, path in expression_reads(places, everything)} - later
    reads = {name: everything[name] for name in sorted(read & everything.keys())}
    return {**params, **({"reads": reads} if reads else {})}


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
    lines = [f"{place} asks: {continued(question)}"]
    lines += (line for it in steps for line in _lines("Then", it))
    text = "\n".join(lines)
    if (answer := typed_answer(run.watcher, run.redactor.text(text), choices, run.cancelled)) is not None:
        return answer
    one = f" ({', '.join(map(one_line, choices))})" if choices else ""
    error = PflowError(
        text,
        details={"step": place, "question": question, "choices": list(choices), "preview": shown},
        suggestions=(f"Answer{one} and go on: pflow resume {run.run_id} --answer {quote(f'{place}=VALUE')}",),
        ran="not ran",
    )
    if step is None or not step.asks(error):
        failure = step.run.failure if step else None
        how = f", which cannot be written now: {failure.message}" if failure else ": without --no-trace"
        error.suggestions = (f"Run it on a terminal, or let it leave a record{how}",)
    raise error


def typed_answer(
    watcher: RunWatcher, question: str, choices: Sequence[str], stopped: Callable[[], bool]
) -> str | None:
    """Ask the user who watches the run a question; return one of `choices` if there are any, or None.

    Ctrl-C or Ctrl-D leaves the answer open, and so does the end of the run: `stopped` says that it came.
    """
    if not watcher.asks:
        return None
    words = f"Answer ({', '.join(map(one_line, choices))}): " if choices else "Answer: "
    with _one_at_a_time, watcher.paused():
        shown = f"{printable(question)}\n"
        while not stopped():
            click.echo(shown + words, nl=False, err=True)
            try:
                answer = _typed_line(stopped)
            except (KeyboardInterrupt, EOFError, OSError):  # the terminal may be gone
                click.echo(err=True)
                break
            if answer and (not choices or answer in choices):
                return answer
            shown = ""
    return None


def _typed_line(stopped: Callable[[], bool]) -> str:
    """Return a line typed by the user who is asked; EOFError says that there is none, or `stopped`."""
    typed = b""
    while not typed.endswith(b"\n"):
        # In short turns: nothing wakes a thread other than the main one. Windows cannot wait for a terminal.
        while os.name == "posix" and not select.select([sys.stdin], [], [], 0.1)[0]:
            if stopped():
                raise EOFError
        if not (some := os.read(sys.stdin.fileno(), 4096)):
            raise EOFError
        typed += some
    return typed.decode(sys.stdin.encoding, "replace").rstrip("\r\n")


def _lines(when: str, step: dict[str, Any]) -> Iterator[str]:
    texts = {name: json.dumps(it, ensure_ascii=False, default=str) for name, it in step["params"].items()}
    params = ", ".join(f"{name}={_shortened(text)}" for name, text in texts.items())
    yield one_line(f"{when}: {step['step']} ({step['type']}) {params}".rstrip())
    for node in step.get("nodes", ()):
        yield from _lines("  Inside", node)


def _shortened(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    half = _LONGEST // 2
    note = f"{len(text) - 2 * half:,} characters are left out here: see error.details.preview with --json"
    return f"{text[:half]}...[{note}]...{text[-half:]}"
