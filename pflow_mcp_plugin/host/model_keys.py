"""API keys from pflow's settings for the models of the `llm` library."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any


def kept_key(model: Any, settings: Callable[[str], str | None]) -> str | None:
    """Return a model's API key from the settings, where it is stored under its environment variable's name.

    Args:
        model: A model of the `llm` library.
        settings: Looks up a value of pflow's settings.

    Returns:
        None if the environment variable is set, since the library reads it itself, or if no key is stored.
    """
    variable = getattr(model, "key_env_var", None)
    return None if not variable or variable in os.environ else settings(variable)
