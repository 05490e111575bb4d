"""The language model that plans, reached through the `llm` library, with a deadline for each request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pflow_mcp_plugin.contract import PflowError, Problem
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.contract.problems import described
from pflow_mcp_plugin.daemon_threads import Threads
from pflow_mcp_plugin.host.foreign_code import foreign_code
from pflow_mcp_plugin.host.language_model import http_status, llm_library, turned_away, unknown_model
from pflow_mcp_plugin.host.model_keys import kept_key
from pflow_mcp_plugin.host.planning.plan_answer import UnreadableAnswer, json_object
from pflow_mcp_plugin.host.planning.plan_prompt import visible, with_schema
from pflow_mcp_plugin.redaction import Redactor

_NO_SCHEMA = (400, 404, 415, 422, 501)
"""HTTP statuses with which a provider rejects a schema, whatever its model claims to support."""
_NO_ENTRY = (401, 403)
_CUT_OFF = ("length", "max_tokens", "MAX_TOKENS", "incomplete")
_WITHHELD = ("content_filter", "refusal", "SAFETY")
_SHOWN = 500
_OFFLINE = "Plan without a model: --offline"


class PlanModel:
    """A model of the `llm` library that the planner asks.

    Args:
        name: The model's name or alias.
        settings: Looks up its key, unless the environment has it.
        seconds: How long a request may take.

    Raises:
        PflowError: The library is not installed, does not know the model, or has no key for it.
    """

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
        """Ask the planning model for a JSON object.

        Args:
            system: The instructions.
            prompt: The question.
            schema: The JSON Schema of the answer; part of the prompt where the model takes none.
            key: A key that the answer has.

        Raises:
            UnreadableAnswer: It gave none: it refused, was cut off, or wrote something else.
            PflowError: It could not be asked, or did not answer in time.
        """
        if self._takes_schema:
            try:
                return self._read(self._answer(system, prompt, schema), key)
            except PflowError as error:
                if error.details.get("status") not in _NO_SCHEMA:
                    raise
                self._takes_schema = False
        return self._read(self._answer(system, with_schema(prompt, schema), None), key)

    def _answer(self, system: str, prompt: str, schema: JSONObject | None) -> Any:
        """Return the model's response, complete.

        Raises:
            PflowError: It could not be asked, or did not answer in time.
        """
        given = {name: value for name, value in (("schema", schema), ("key", self._key)) if value is not None}
        request = partial(self._model.prompt, prompt, system=system, stream=False, **given)
        # A thread of its own: the library has no deadline, and Ctrl-C would wait for some of its plugins.
        with Threads(1) as threads, foreign_code(self._failure, passing=(PflowError,)):
            future = threads.submit(_complete, request)
            try:
                return future.result(self._seconds)
            except TimeoutError as error:
                if future.done():  # the library's own
                    raise
                raise self._late() from error

    def _read(self, response: Any, key: str) -> JSONObject:
        text, about = response
        how = _ending(about)
        refusal = _refusal(about)
        if refusal or how in _WITHHELD:
            message = f"The model refused to answer: {visible(refusal or how, _SHOWN)}"
            raise UnreadableAnswer(self._redactor.text(message), kind="validation")
        try:
            return json_object(self._redactor.text(text), key)
        except UnreadableAnswer as error:
            if how not in _CUT_OFF:
                raise
            message = "The model's answer was cut off: it reached the model's limit of tokens"
            raise UnreadableAnswer(message, kind="validation") from error

    def _failure(self, error: BaseException) -> PflowError:
        """Return why the model could not be asked, without its key."""
        status = http_status(error)
        known = turned_away(error)
        said = visible(self._redactor.text(described(error) if known is None else known.message), _SHOWN)
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

    def _late(self) -> PflowError:
        message = f"The model {self.name} did not answer within {self._seconds:g} seconds"
        return PflowError(
            message,
            suggestions=("Allow more time: --timeout SECONDS", _OFFLINE),
            problems=(Problem(message=message, kind="connection"),),
            kind="connection",
        )


def _complete(request: Callable[[], Any]) -> tuple[str, Any]:
    """Send a request; return the text of the answer, and what the provider says about it."""
    response = request()
    try:
        text = response.text()
    except TypeError:  # early versions of the library join the text of a refusal, which is None
        if not _refusal(getattr(response, "response_json", None)):
            raise
        text = ""
    return str(text), getattr(response, "response_json", None)


def _ending(about: Any) -> str:
    """Return why a model stopped, in its provider's word; empty if that is unknown."""
    if not isinstance(about, Mapping):
        return ""
    found = about.get("stop_reason") or about.get("finish_reason") or _choice(about).get("finish_reason")
    return found if isinstance(found, str) else ""


def _refusal(about: Any) -> str:
    message = _choice(about).get("message") if isinstance(about, Mapping) else None
    refusal = message.get("refusal") if isinstance(message, Mapping) else None
    return refusal if isinstance(refusal, str) else ""


def _choice(about: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = about.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, Mapping) else {}


def _key_steps(model: Any) -> tuple[str, ...]:
    variable = getattr(model, "key_env_var", None)
    return (f"Save its key: pflow settings set {variable} -",) if variable else ()
