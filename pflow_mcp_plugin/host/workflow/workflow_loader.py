"""Loads a workflow from JSON or YAML text."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePath

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.host.workflow.findings import Findings, at, cut, refusal
from pflow_mcp_plugin.host.workflow.findings import shown as described

MOST_TEXT = 8 << 20
"""Characters of a text that is loaded as a workflow: in memory, JSON can take 20 times as much."""
_LONGEST = 4_000
"""Digits of a whole number that is loaded; Python's own limit is 4,300."""


def is_yaml(origin: str, text: str) -> bool:
    """Return whether a text is read as YAML: by its file's suffix, else unless it begins as JSON does."""
    suffix = PurePath(origin).suffix.lower()
    if suffix in (".json", ".yaml", ".yml"):
        return suffix != ".json"
    return text.lstrip("\ufeff \t\r\n")[:1] not in ("{", "[")


def load_workflow(text: str, origin: str, what: str = "a workflow") -> dict[str, JSON]:
    """Load the workflow in a JSON or YAML text, or another object.

    Args:
        text: The whole file; a byte order mark is skipped.
        origin: The file's name, for messages; `is_yaml` goes by its suffix.
        what: What it is, for messages.

    Raises:
        PflowError: It is too long, is not JSON or YAML (line and column are named), not an object, or
            holds objects with duplicate keys (each is named).
    """
    if len(text) > MOST_TEXT:
        message = f"{origin}: the text is longer than {MOST_TEXT:,} characters, too long for {what}"
        step = "Keep large data in files that nodes read"
        raise PflowError(message, details={"file": origin}, suggestions=(step,), kind="validation")
    value, findings = (_yaml if is_yaml(origin, text) else _json)(text.removeprefix("\ufeff"), origin)
    if not isinstance(value, dict):
        message = f"{origin}: {what} is a JSON object, this is {described(value)}"
        raise PflowError(message, details={"file": origin}, kind="validation")
    if findings.problems:
        raise refusal(origin, findings.problems)
    return value


def _json(text: str, origin: str) -> tuple[JSON, Findings]:
    repeated = _RepeatedKeys()
    try:
        value = json.loads(
            text,
            parse_constant=_number,  # NaN and Infinity, which Python's decoder accepts
            parse_float=_number,
            parse_int=_whole,
            object_pairs_hook=repeated.join,
        )
        findings = repeated.findings(value)
    except json.JSONDecodeError as error:
        raise _not_json(origin, error) from error
    except ValueError as error:
        raise PflowError(f"{origin}: {error}", details={"file": origin}, kind="validation") from error
    except RecursionError as error:
        raise PflowError(
            f"{origin}: nested too deeply", details={"file": origin}, kind="validation"
        ) from error
    return value, findings


def _yaml(text: str, origin: str) -> tuple[JSON, Findings]:
    from pflow_mcp_plugin.host.workflow.yaml_text import YamlText

    read = YamlText(text, origin)
    return read.value, read.findings


class _RepeatedKeys:
    """Finds duplicate keys of an object, of which all but one value would be lost."""

    def __init__(self) -> None:
        self._found: list[tuple[dict[str, JSON], list[str]]] = []

    def join(self, pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
        """Return an object from its members; used as `object_pairs_hook`."""
        members = dict(pairs)
        if len(members) < len(pairs):
            counts = Counter(key for key, _ in pairs)
            self._found.append((members, [key for key, count in counts.items() if count > 1]))
        return members

    def findings(self, value: JSON) -> Findings:
        """Return a problem for each, with its JSON path."""
        findings = Findings()
        # By identity, as the decoder does not say where in the text an object is.
        places = {id(item): path for path, item in _objects(value, "$")} if self._found else {}
        for members, keys in self._found:
            path = places.get(id(members), "")  # empty if the object itself was replaced by a duplicate
            for key in keys if path else ():
                findings.error(at(path, key), f"Duplicate key {key} in {path}", "Remove one")
        return findings


def _objects(value: JSON, path: str) -> Iterator[tuple[str, JSON]]:
    if isinstance(value, dict):
        yield path, value
        for key, item in value.items():
            yield from _objects(item, at(path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _objects(item, f"{path}[{index}]")


def _whole(text: str) -> int:
    if len(text) <= _LONGEST:
        return int(text)
    message = f"a whole number of {len(text.removeprefix('-')):,} digits is too large"
    raise ValueError(message)


def _number(text: str) -> float:
    number = float(text)
    if math.isfinite(number):
        return number
    shown = cut(text)
    message = f"{shown} is too large a number" if text[-1].isdigit() else f"{shown} is not a JSON value"
    raise ValueError(message)


def _not_json(origin: str, error: json.JSONDecodeError) -> PflowError:
    details = {"file": origin, "line": error.lineno, "column": error.colno}
    message = f"{origin} is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}"
    return PflowError(
        message, details=details, suggestions=(f"Fix line {error.lineno} of {origin}",), kind="validation"
    )
