"""Ranks what `discover` found by a language model, if the user has chosen one."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.model_keys import kept_key
from pflow_mcp_plugin.host.plugins import Plugin, plugin_code
from pflow_mcp_plugin.host.registry.node_index import NodeRow

SETTING = "PFLOW_DISCOVER_MODEL"
"""The variable or setting that names the ranking model, which the `llm` library runs."""

CHOICE = 3
"""The ranking model chooses among this many times the number of nodes requested."""

_PROMPT = """\
A workflow shall do this task:

{task}

These nodes could be part of it:

{nodes}

Answer with the names of the nodes that the task needs, the most needed first, one a line, nothing else."""
_SHOWN = 200


def rerank(
    task: str, rows: Sequence[NodeRow], model: str, settings: Callable[[str], str | None]
) -> list[NodeRow]:
    """Rank rows by a model: those that it names come first, in its order; the others follow.

    Scores stay those of the matching words.

    Args:
        task: The task in words.
        rows: The nodes to choose from.
        model: The name of the model.
        settings: Looks up the model's key.

    Raises:
        PflowError: The model cannot be asked, for any reason, or names none of the nodes.
    """
    with plugin_code(Plugin("llm"), f"could not ask {model}", passing=(PflowError,)):
        answer = _ask(model, _prompt(task, rows), settings)
    named = _named(answer, rows)
    if rows and not named:
        raise PflowError(f"{model} named none of the nodes")
    return list({row.node: row for row in (*named, *rows)}.values())


def _ask(name: str, prompt: str, settings: Callable[[str], str | None]) -> str:
    try:
        import llm
    except ModuleNotFoundError as error:
        message = f"The model {name} cannot be asked: llm is not installed"
        raise PflowError(message, suggestions=("pip install llm",)) from error
    model: Any = llm.get_model(name)
    key = kept_key(model, settings)
    return str(model.prompt(prompt, stream=False, **({"key": key} if key else {})).text())


def _prompt(task: str, rows: Sequence[NodeRow]) -> str:
    nodes = (f"- {row.node}: {' '.join(row.description.split())[:_SHOWN]}" for row in rows)
    return _PROMPT.format(task=task, nodes="\n".join(nodes))


def _named(answer: str, rows: Sequence[NodeRow]) -> list[NodeRow]:
    """Return the rows whose names occur in an answer, in the order of their first occurrence."""
    found = ((_name(row.node).search(answer), row) for row in rows)
    places = [(match.start(), row) for match, row in found if match]
    return [row for _, row in sorted(places, key=lambda item: item[0])]


def _name(node: str) -> re.Pattern[str]:
    """Return a pattern for a name that is not part of a longer one; a full stop may follow it."""
    return re.compile(rf"(?<![\w-])(?<!\w\.){re.escape(node)}(?![\w-]|\.\w)")
