"""Ranks candidates for a task with a language model, if the user has chosen one."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.language_model import kept_key
from pflow_mcp_plugin.host.plugins import Plugin, plugin_code

SETTING = "PFLOW_DISCOVER_MODEL"
"""The variable or setting that names the ranking model, which the `llm` library runs."""


_PROMPT = """\
A workflow must do this task:

{task}

These {things} could be part of it:

{candidates}

Answer with the names of the {things} that the task needs, most needed first, one per line, nothing else."""
_SHOWN = 200


class ModelRanking:
    """The model that the user has chosen to rank candidates for a task, if any.

    `things` tells the model, in the plural, what is ranked. `settings` looks up the name of the model,
    unless the environment has it, and its key.
    """

    def __init__(self, things: str, settings: Callable[[str], str | None]) -> None:
        self._things = things
        self._settings = settings
        self._model = os.environ.get(SETTING) or settings(SETTING) or ""

    def candidates(self, limit: int) -> int:
        return 3 * limit if self._model else limit

    def rank(
        self, task: str, candidates: Mapping[str, str], limit: int, ranked_by: str = "words"
    ) -> tuple[list[str], str, str]:
        """Return names ranked by the model, its name, and a note: those it names first, then the others.

        `candidates` has the description of each by name, best first. Without a model, or when it cannot be
        asked, they keep the order that they are `ranked_by`; the note says why it could not.
        """
        by_words = list(candidates)[:limit]
        if not self._model or not candidates:
            return by_words, ranked_by, ""
        try:
            named = self._named(task, candidates)
        except PflowError as error:
            return by_words, ranked_by, error.message
        return list(dict.fromkeys([*named, *candidates]))[:limit], self._model, ""

    def _named(self, task: str, candidates: Mapping[str, str]) -> list[str]:
        listed = (f"- {name}: {' '.join(text.split())[:_SHOWN]}" for name, text in candidates.items())
        prompt = _PROMPT.format(task=task, things=self._things, candidates="\n".join(listed))
        with plugin_code(Plugin("llm"), f"could not ask {self._model}", passing=(PflowError,)):
            try:
                import llm
            except ModuleNotFoundError as error:
                message = f"The model {self._model} cannot be asked: llm is not installed"
                raise PflowError(message, suggestions=("pip install llm",)) from error
            model: Any = llm.get_model(self._model)
            key = kept_key(model, self._settings)
            answer = str(model.prompt(prompt, stream=False, **({"key": key} if key else {})).text())
        # Not part of a longer name; a full stop may follow it.
        found = (
            (re.search(rf"(?<![\w-])(?<!\w\.){re.escape(name)}(?![\w-]|\.\w)", answer), name)
            for name in candidates
        )
        named = [name for _, name in sorted((place.start(), name) for place, name in found if place)]
        if not named:
            raise PflowError(f"{self._model} named none of the {self._things}")
        return named
