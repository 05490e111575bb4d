"""Questions that a server asks its client during a call, and their answers.

A run without a person declines them as the protocol provides, and the call goes on. Used in both
eras: for requests from the server, and for `input_required` results.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from mcp_types import (
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    InputRequest,
    InputResponse,
    ListRootsRequest,
    ListRootsResult,
)

from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.redaction import Redactor

Ask = Callable[[str, JSONObject], Mapping[str, Any] | None]
"""Takes a question and the JSON Schema of its form; returns fields, or None to decline.

It may block: it runs in its own thread. Fields that it leaves out get the schema's default.
"""

_LONGEST = 4000
"""Characters of a question that go into a warning."""
_REJECTED = -1
"""The error code for a refused sampling request (protocol 2025-11-25, "Sampling", "Error Handling")."""


class Elicitation:
    """Answers what one server asks during calls."""

    def __init__(self, ask: Ask | None, warn: Callable[[str], None], redactor: Redactor) -> None:
        self._ask = ask
        self._redactor = redactor
        self._warn = warn
        self._warned = False

    @property
    def answered(self) -> bool:
        """Whether anyone can answer questions, as servers learn during the handshake."""
        return self._ask is not None

    async def answer(self, request: InputRequest) -> InputResponse | ErrorData:
        """Answer a question, or return an error where the protocol has no other way to refuse."""
        if isinstance(request, ElicitRequest):
            return await self.elicit(None, request.params)
        if isinstance(request, ListRootsRequest):
            return ListRootsResult(roots=[])
        self._decline("the use of a language model")
        return ErrorData(code=_REJECTED, message="Sampling is declined: this client has no language model")

    async def elicit(self, context: object, params: ElicitRequestParams) -> ElicitResult:
        """Return the answer to a form with defaults filled in, or decline it."""
        # The other mode, `url`, wants a browser opened at an address that the server chooses.
        if self._ask is None or not isinstance(params, ElicitRequestFormParams):
            self._decline(f"input: {self._redactor.shortened(params.message, _LONGEST)!r}")
            return ElicitResult(action="decline")
        schema = params.requested_schema
        question, form = self._redactor.piece(params.message), self._redactor.value(schema)
        given = await asyncio.to_thread(self._ask, question, form)
        if given is None:
            return ElicitResult(action="decline")
        properties = schema.get("properties")
        fields = properties.items() if isinstance(properties, Mapping) else ()
        content = {
            name: field["default"]
            for name, field in fields
            if isinstance(field, Mapping) and "default" in field
        }
        return ElicitResult(action="accept", content={**content, **given})

    def _decline(self, what: str) -> None:
        if not self._warned:
            self._warned = True
            self._warn(f"asks for {what}; declined, because nobody can answer")
