"""Gets the answer of a language model and reads it: JSON inside any text, workflows in the planner's form."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, cast

from pflow_mcp_plugin.contract import Entry, Field, PflowError, Problem
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.contract.problems import described
from pflow_mcp_plugin.daemon_threads import Threads
from pflow_mcp_plugin.host.foreign_code import foreign_code
from pflow_mcp_plugin.host.language_model import (
    http_status,
    kept_key,
    llm_library,
    turned_away,
    unknown_model,
)
from pflow_mcp_plugin.host.planning.plan_prompt import MOST_NODES, UNSEEN, visible, with_schema
from pflow_mcp_plugin.host.workflow.coercion import READER, TypeMismatch, coerce, typed
from pflow_mcp_plugin.host.workflow.templates import lone
from pflow_mcp_plugin.redaction import Redactor
from pflow_mcp_plugin.schemas.schema_reader import list_of, table_of
from pflow_mcp_plugin.storage.json_and_toml import is_too_deep

_LONGEST = 400_000
"""The number of characters of an answer that are read."""

_KEPT = "\n\r\t\u200c\u200d"
"""Line breaks, and the format characters that some scripts and emoji need."""
_SHOWN = 200

Find = Callable[[str], Entry | None]
"""Looks up a node type; returns None if it is unknown."""


class UnreadableAnswer(PflowError):
    """A planning model's answer without a JSON object; asking again may help."""


def json_object(text: str, key: str) -> JSONObject:
    """Return the JSON object with this key in a planning model's answer, whatever text is around it."""
    for found in _objects(text[:_LONGEST]):
        if key in found:
            if is_too_deep(found):
                raise UnreadableAnswer("The model's answer is nested too deeply", kind="validation")
            return cast("JSONObject", seen(found))
    beginning = visible(text, _SHOWN)
    if not beginning:
        raise UnreadableAnswer("The model's answer is empty", kind="validation")
    what = f"holds no complete JSON object with {key}" if "{" in text else "is not JSON"
    raise UnreadableAnswer(f"The model's answer {what}: {beginning}", kind="validation")


def _objects(text: str) -> Iterator[dict[str, JSON]]:
    """Yield the JSON objects in a planning model's answer, outer ones before those inside them."""
    start = text.find("{")
    for _ in range(200):  # braces that may begin an object
        if start < 0:
            return
        with suppress(ValueError, RecursionError):
            yield READER.raw_decode(text, start)[0]
        start = text.find("{", start + 1)


def prose(text: JSON | None) -> str:
    """Read a text for people from the planner's model, on one line as in a prompt; empty if it is no text."""
    return visible(text, 1_000) if isinstance(text, str) else ""


def seen(value: JSON) -> JSON:
    """Clean the JSON of a planner's answer: keep only characters that prompts may have, and line breaks."""
    if isinstance(value, str):
        return "".join(it for it in value if it in _KEPT or unicodedata.category(it) not in UNSEEN)
    if isinstance(value, dict):
        return {str(seen(key)): seen(item) for key, item in value.items()}
    return [seen(item) for item in value] if isinstance(value, list) else value


def answered_workflow(answer: JSONObject, find: Find) -> dict[str, JSON]:
    """Return the workflow in a model's answer in the form of workflow files; unknown keys are dropped."""
    workflow: dict[str, JSON] = {
        "description": prose(answer.get("description")),
        "inputs": {name: _input(item) for name, item in _named(answer.get("inputs"), dict).items()},
        "nodes": [_node(node, find) for node in list_of(answer.get("nodes"))[: MOST_NODES + 1]],
        "edges": [_edge(edge) for edge in list_of(answer.get("edges"))],
        "mappings": _mappings(answer.get("mappings")),
        "outputs": {
            name: item.get("source") if isinstance(item, dict) else item
            for name, item in _named(answer.get("outputs"), _value).items()
        },
    }
    return {key: value for key, value in workflow.items() if value or key in ("nodes", "edges")}


def _named(table: JSON | None, value: Callable[[JSONObject], JSON]) -> dict[str, JSON]:
    """Read a table in the answer of the planner's model: an object, or a list of rows with a `name`."""
    if isinstance(table, dict):
        return {str(name): item for name, item in table.items()}
    rows = ((row.get("name"), row) for row in map(table_of, list_of(table)))
    return {name: value(row) for name, row in rows if isinstance(name, str)}


def _value(row: JSONObject) -> JSON:
    return row["value"] if "value" in row else row.get("source")


def _input(item: JSON) -> JSON:
    declared = table_of(item)
    kind = declared.get("type")
    read: dict[str, JSON] = {"type": kind if isinstance(kind, str) and kind else "any"}
    if description := prose(declared.get("description")):
        read["description"] = description
    default = declared.get("default")
    if default in (None, ""):  # some providers make a model fill in every key
        return read
    return {**read, "default": _typed(default, Field(key="default", type=str(read["type"])))}


def _node(node: JSON, find: Find) -> JSON:
    if not isinstance(node, dict):
        return node
    read = {key: node[key] for key in ("id", "type") if key in node}
    if purpose := prose(node.get("purpose")):
        read["purpose"] = purpose
    entry = find(node["type"]) if isinstance(node.get("type"), str) else None
    fields = {field.key: field for field in entry.interface.params} if entry else {}
    params = _named(node.get("params"), _value)
    read["params"] = {key: _typed(value, fields.get(key, Field(key="any"))) for key, value in params.items()}
    batch = node.get("batch")
    items = batch.get("items") if isinstance(batch, dict) else node.get("for_each")
    return {**read, "batch": {"items": items}} if items else read


def _typed(value: Any, field: Field) -> Any:
    """Return an answered value as its parameter takes it: non-strings may be written as JSON text."""
    if not isinstance(value, str) or lone(value) or set(field.types) <= {"str", "any"}:
        return value
    try:
        return coerce(typed(value, field), field)
    except TypeMismatch:
        return value


def _edge(edge: JSON) -> JSON:
    if not isinstance(edge, dict):
        return edge
    read = {key: edge[key] for key in ("from", "to") if key in edge}
    action = edge.get("action")
    return read if action in (None, "", "default") else {**read, "action": action}


def _mappings(table: JSON | None) -> dict[str, JSON]:
    if isinstance(table, dict):
        tables = ("input_mappings", "output_mappings")
        return {
            node: {
                key: {own: other for own, other in table_of(item[key]).items() if isinstance(other, str)}
                for key in tables
                if isinstance(item.get(key), dict)
            }
            for node, item in table.items()
            if isinstance(item, dict)
        }
    read: dict[str, dict[str, JSON]] = {}
    for row in map(table_of, list_of(table)):
        match [row.get(key) for key in ("node", "key", "source")]:
            case [str(node), str(key), str(source)]:
                reference = lone(source)
                read.setdefault(node, {})[key] = reference.text[2:-1] if reference else source
    return {node: {"input_mappings": sources} for node, sources in read.items()}


_NO_SCHEMA = (400, 404, 415, 422, 501)
"""HTTP statuses with which a provider rejects a schema, whatever its model claims to support."""
_NO_ENTRY = (401, 403)
_CUT_OFF = ("length", "max_tokens", "MAX_TOKENS", "incomplete")
_WITHHELD = ("content_filter", "refusal", "SAFETY")
_LONGEST_SAID = 500
_OFFLINE = "Plan without a model: --offline"


class PlanModel:
    """Gets a language model's answer for a plan, within `seconds`, and reads the JSON object in it."""

    def __init__(self, name: str, settings: Callable[[str], str | None], seconds: float) -> None:
        self.name = name
        self._seconds = seconds
        self._redactor = Redactor()
        llm = llm_library()
        with foreign_code(self._failure, passing=(PflowError,)):
            try:
                self._model: Any = llm.get_model(name)
                self._key = kept_key(self._model, settings)
                used = self._model.get_key(self._key)
            except llm.UnknownModelError as error:
                raise unknown_model(name) from error
            except llm.NeedsKeyException as error:
                raise PflowError(str(error), suggestions=_key_steps(self._model), kind="config") from error
            self._takes_schema = bool(getattr(self._model, "supports_schema", False))
        self._redactor.add([used] if used else [])

    def ask(self, system: str, prompt: str, schema: JSONObject, key: str) -> JSONObject:
        """Return the answer to the planner, an object with `key`, whether or not the model takes a schema."""
        if self._takes_schema:
            try:
                return self._read(self._answer(system, prompt, schema), key)
            except PflowError as error:
                if error.details.get("status") not in _NO_SCHEMA:
                    raise
                self._takes_schema = False
        return self._read(self._answer(system, with_schema(prompt, schema), None), key)

    def _answer(self, system: str, prompt: str, schema: JSONObject | None) -> Any:
        given = {name: value for name, value in (("schema", schema), ("key", self._key)) if value is not None}
        request = partial(self._model.prompt, prompt, system=system, stream=False, **given)
        # A thread of its own: the library has no deadline, and Ctrl-C would wait for some of its plugins.
        with Threads(1) as threads, foreign_code(self._failure, passing=(PflowError,)):
            future = threads.submit(_complete, request)
            try:
                return future.result(self._seconds)
            except TimeoutError as error:
                if future.done():  # the library's own error
                    raise
                message = f"The model {self.name} did not answer within {self._seconds:g} seconds"
                raise PflowError(
                    message,
                    suggestions=("Allow more time: --timeout SECONDS", _OFFLINE),
                    problems=(Problem(message=message, kind="connection"),),
                    kind="connection",
                ) from error

    def _read(self, response: Any, key: str) -> JSONObject:
        text, about = response
        said = table_of(about)
        # The provider's word for why it stopped.
        stopped = said.get("stop_reason") or said.get("finish_reason") or _choice(said).get("finish_reason")
        how = str(stopped or "")
        refusal = _refusal(about)
        if refusal or how in _WITHHELD:
            message = f"The model refused to answer: {visible(refusal or how, _LONGEST_SAID)}"
            raise UnreadableAnswer(self._redactor.text(message), kind="validation")
        try:
            return json_object(self._redactor.text(text), key)
        except UnreadableAnswer as error:
            if how not in _CUT_OFF:
                raise
            message = "The model's answer was cut off: it reached the model's limit of tokens"
            raise UnreadableAnswer(message, kind="validation") from error

    def _failure(self, error: BaseException) -> PflowError:
        status = http_status(error)
        known = turned_away(error)
        said = visible(
            self._redactor.text(described(error) if known is None else known.message), _LONGEST_SAID
        )
        steps: tuple[str, ...] = (_OFFLINE,)
        if status in _NO_ENTRY:
            steps = (*_key_steps(getattr(self, "_model", None)), *steps)
        message = f"The model {self.name} could not be asked: {said}"
        return PflowError(
            message,
            details={} if status is None else {"status": status},
            suggestions=steps,
            problems=(Problem(message=message, kind="connection"),),
            kind="connection",
            ran="not ran" if known else "unknown",
            retryable=known is not None,
            retry_after=known.retry_after if known else None,
        )


def _complete(request: Callable[[], Any]) -> tuple[str, Any]:
    response = request()
    try:
        text = response.text()
    except TypeError:  # early versions of the library fail on a refusal, whose text is None
        if not _refusal(getattr(response, "response_json", None)):
            raise
        text = ""
    return str(text), getattr(response, "response_json", None)


def _refusal(about: JSON) -> str:
    refusal = table_of(_choice(about).get("message")).get("refusal")
    return refusal if isinstance(refusal, str) else ""


def _choice(about: JSON) -> JSONObject:
    return table_of(next(iter(list_of(table_of(about).get("choices"))), None))


def _key_steps(model: Any) -> tuple[str, ...]:
    variable = getattr(model, "key_env_var", None)
    return (f"Save its key: pflow settings set {variable} -",) if variable else ()
