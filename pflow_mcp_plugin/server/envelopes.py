"""The JSON envelope around each answer of pflow's tools (`data` or `error`), its schema, and its redaction.

It is the one that the command line prints with `--json`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from pflow_mcp_plugin.contract import Discovery, Host, PflowError, RunControl, Settings
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.contract.problems import EXIT_CODES
from pflow_mcp_plugin.redaction import Redactor, unusual
from pflow_mcp_plugin.secret_detection import is_secret, tokens, within
from pflow_mcp_plugin.server.served_tool import Claims
from pflow_mcp_plugin.storage.json_and_toml import is_too_deep, plain_json

ANY_OBJECT: JSONObject = {"type": "object"}
FLAG: JSONObject = {"type": "boolean"}
INTEGER: JSONObject = {"type": "integer"}
TEXT: JSONObject = {"type": "string"}
NUMBER: JSONObject = {"type": "number"}

SCHEMA = 1
"""The version of both envelopes."""

_DEEPEST = 120
"""The most levels of nesting in an answer; the SDK refuses to send about twice as many."""


def object_of(properties: JSONObject, required: Iterable[str] | None = None) -> dict[str, Any]:
    """Return the JSON Schema of an object in an envelope; by default, all these properties are required."""
    names = properties if required is None else required
    return {"type": "object", "properties": properties, "required": list(names)}


def list_of(items: JSONObject) -> dict[str, Any]:
    """Return the JSON Schema of a list in an envelope."""
    return {"type": "array", "items": items}


_KIND: JSONObject = {"enum": list(EXIT_CODES)}
ERROR: JSONObject = {
    **object_of({"type": _KIND, "message": TEXT, "details": ANY_OBJECT, "suggestions": list_of(TEXT)}),
    "description": "Why it failed; absent on success",
}


def success(data: object, **beside: object) -> dict[str, Any]:
    """Return the envelope of a successful answer, with further keys next to `data`."""
    return {"schema": SCHEMA, "success": True, "data": data, **beside}


def failure(error: PflowError, **beside: object) -> dict[str, Any]:
    """Return the envelope of a failed call, with further keys next to `error`."""
    return {"schema": SCHEMA, "success": False, "error": error.to_dict(), **beside}


def output_schema(data: JSONObject, **beside: JSONObject) -> dict[str, Any]:
    """Return the output schema of a tool that answers in an envelope, with optional keys beside its data."""
    own: JSONObject = {"schema": {"const": SCHEMA}, "success": FLAG, "data": data, "error": ERROR}
    return object_of({**own, **beside}, ("schema", "success"))


def encoded(envelope: JSONObject) -> tuple[Any, str]:
    """Return the envelope around an answer as plain JSON values, and its JSON text.

    Nodes may have written any objects, which become strings; what is nested too deeply becomes `...`.
    """
    try:
        text = json.dumps(envelope, ensure_ascii=False, allow_nan=False)
        text.encode()  # fails if half of a surrogate pair is alone
        brackets = text.count("{") + text.count("[")
        if brackets <= _DEEPEST or not is_too_deep(envelope, _DEEPEST):
            return envelope, text
    except (TypeError, ValueError, RecursionError):
        pass
    plain = json.dumps(plain_json(envelope, _DEEPEST, lambda _: None), ensure_ascii=False)
    text = plain.encode("utf-8", "replace").decode()
    return json.loads(text), text


def redacted(value: Any, schema: JSON, redactor: Redactor) -> Any:
    """Return an envelope, or a part of it, redacted; the keys and words that its schema declares stay."""
    rules: Any = schema if isinstance(schema, Mapping) else {}
    declared, items = rules.get("properties"), rules.get("items")
    if "enum" in rules or "const" in rules:
        return value
    if isinstance(value, dict) and declared:
        own = {key: redacted(value[key], declared[key], redactor) for key in value if key in declared}
        return {**own, **redactor.value({key: it for key, it in value.items() if key not in declared})}
    if isinstance(value, list) and isinstance(items, Mapping) and "properties" in items:
        return [redacted(item, items, redactor) for item in value]
    return redactor.value(value)


_PROSE = ("title", "description", "default", "enum", "const", "examples")


def redacted_schema(schema: Any, redactor: Redactor) -> Any:
    """Return a served tool's schema redacted like its answers; it stays valid, with the same names in it."""
    if not isinstance(schema, Mapping):
        return schema
    shown: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword == "properties":
            shown[keyword] = {name: redacted_schema(each, redactor) for name, each in value.items()}
        elif keyword in _PROSE:
            shown[keyword] = redactor.value(value)
        elif isinstance(value, Mapping):
            shown[keyword] = redacted_schema(value, redactor)
        elif keyword in ("type", "required") or redactor.value(value) == value:
            shown[keyword] = value
    return shown


class KnownSecrets:
    """What is redacted from every answer's envelope: the values of secret settings, and `more` secrets."""

    def __init__(self, host: Host, more: frozenset[str] = frozenset()) -> None:
        self._host = host
        self._more = more
        self._seen: tuple[str, frozenset[str]] = ("", frozenset())

    def redactor(self, control: RunControl | None = None) -> Redactor:
        of_run = frozenset(unusual(control.secrets, 6)) if control else frozenset()
        return Redactor(self.saved() | of_run)

    def saved(self) -> frozenset[str]:
        """Return what is redacted from all envelopes, whatever the run; if it cannot be read, as last read.

        Runs cannot read the settings then either, and what needs them reports that.
        """
        settings = self._host.settings
        if settings is None:
            return self._more
        before, secrets = self._seen
        with suppress(PflowError):
            now = settings.fingerprint()
            if not now or now != before:
                secrets = frozenset(unusual(_secret_values(settings), 6))
                self._seen = (now, secrets)
        return secrets | self._more


def _secret_values(settings: Settings) -> Iterator[str]:
    # Those in a keyring or from a command are read only when a run needs them, which then reports them.
    plain = settings.plain()
    for key, place in settings.names().items():
        value = settings.get(key) if place == "file" and key not in plain else None
        if value and is_secret(key):
            yield from (value, *within(value, is_secret_whole=True))
        elif value:
            yield from (value[token.start : token.end] for token in tokens(value))


MOST_CHARACTERS = 20_000
"""Characters that an argument may have where its schema does not say more."""
MOST_NAMES = 1_000
"""Items that a list given as an argument may have."""

RUN_BESIDE: Mapping[str, JSONObject] = {
    "trace_path": {**TEXT, "description": "The trace of the run. trace_read reads it"},
    "checkpoint": {
        **ANY_OBJECT,
        "description": "On failure: what each node had written, by node id; shortened and redacted",
    },
    "warnings": {
        **list_of(object_of({"message": TEXT, "suggestion": TEXT}, ("message",))),
        "description": "What the run warned of, such as items of a batch that failed while it went on",
    },
}
"""What the envelopes of a run have beside `data` or `error`."""

LOCAL_READING = Claims(read_only=True, destructive=False, idempotent=True, open_world=False)
"""The claims of a tool that reads what is on this machine."""


def answer_schema(
    properties: JSONObject, required: Iterable[str] | None = None, **beside: JSONObject
) -> dict[str, Any]:
    """Return the schema of a tool's envelopes whose `data` is an object with these properties."""
    return output_schema(object_of(properties, required), **beside)


def arguments_schema(properties: JSONObject, required: Iterable[str] | None = None) -> dict[str, Any]:
    """Return the input schema of a tool that answers in an envelope: only these arguments, none endless."""
    bounded = {name: _bounded(schema) for name, schema in properties.items()}
    return {**object_of(bounded, required), "additionalProperties": False}


def _bounded(schema: Any) -> JSONObject:
    if schema["type"] == "array":
        return {"maxItems": MOST_NAMES, **schema, "items": _bounded(schema["items"])}
    return {"maxLength": MOST_CHARACTERS, **schema} if schema["type"] == "string" else schema


_Found = TypeVar("_Found")

DISCOVERING = Claims(read_only=True, destructive=False, idempotent=True, open_world=True)
"""The claims of a tool that finds things for a task: a language model of the user's may rank them."""


def discovery_answer(found: Discovery[_Found], to_dict: Callable[[_Found], Mapping[str, JSON]]) -> JSONObject:
    """Return the envelope around an answer of `*_discover`; `to_dict` returns the JSON form of an item."""
    return success({"matches": found.to_list(to_dict), "ranked_by": found.ranked_by, "note": found.note})


def discovery_schema(properties: JSONObject, required: Iterable[str]) -> dict[str, Any]:
    """Return the schema of the envelopes of a `*_discover` tool whose items have these properties."""
    confidence = {**NUMBER, "minimum": 0, "maximum": 1}
    match = object_of(
        {**properties, "confidence": confidence, "reason": TEXT}, (*required, "confidence", "reason")
    )
    found = {"matches": list_of(match), "ranked_by": TEXT, "note": TEXT}
    return answer_schema(found, ("matches", "ranked_by"))
