"""What the `llm` library's models need of pflow."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any


def kept_key(model: Any, settings: Callable[[str], str | None]) -> str | None:
    """Return a model's key from the settings, where it is kept under the name of its environment variable.

    Args:
        model: A model of the library.
        settings: Looks up a value of pflow's settings.

    Returns:
        None where the variable itself is set, as the library reads that, and where nothing is kept.
    """
    variable = getattr(model, "key_env_var", None)
    return None if not variable or variable in os.environ else settings(variable)
