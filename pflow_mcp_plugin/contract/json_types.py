"""The types of JSON values that cross the contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

JSON: TypeAlias = bool | int | float | str | Sequence["JSON"] | Mapping[str, "JSON"] | None
"""A JSON value to read, such as a param as its workflow has it; narrow it with `isinstance`."""

JSONObject: TypeAlias = Mapping[str, JSON]
"""A JSON object to read; build one as `dict[str, JSON]`."""
