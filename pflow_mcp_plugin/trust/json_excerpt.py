"""JSON values of any size, cut to what people read."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from pflow_mcp_plugin.contract.json_types import JSON

_DEPTH = 8
_MEMBERS = 50
_LETTERS = 4_000
_LARGEST = 10**400
_CUT = "..."


def excerpt(value: object, depth: int = _DEPTH) -> JSON:
    """Return a JSON value without what is too deeply nested, too long or too many; `...` stands for it."""
    if isinstance(value, str):
        return value if len(value) <= _LETTERS else value[:_LETTERS] + _CUT
    if isinstance(value, Mapping | list | tuple):
        return _CUT if depth == 0 else _members(value, depth - 1)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _LARGEST:
        return _CUT
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def _members(value: Mapping[str, object] | list[object] | tuple[object, ...], depth: int) -> JSON:
    if isinstance(value, Mapping):
        found: dict[str, JSON] = {
            str(key)[:_LETTERS]: excerpt(each, depth)
            for key, each in itertools.islice(value.items(), _MEMBERS)
        }
        return {**found, _CUT: len(value) - _MEMBERS} if len(value) > _MEMBERS else found
    listed = [excerpt(each, depth) for each in value[:_MEMBERS]]
    return [*listed, _CUT] if len(value) > _MEMBERS else listed
