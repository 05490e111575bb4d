"""What a server asks of its client in mid-call, and what it gets for an answer.

A run has nobody to ask: questions are declined in the protocol's own way, and the call goes on
with that. Used for both eras: requests from the server, and `input_required` results.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp_types import ElicitRequestParams, ElicitResult, ErrorData, InputRequest, InputResponse

Ask = Callable[[str, Mapping[str, Any]], Mapping[str, Any] | None]
"""Takes a question and the JSON Schema of its form; returns fields, or None to decline.

It may block: it runs in a thread of its own. What it leaves out gets the schema's default.
"""

_REJECTED = -1
"""The protocol's code for a refused sampling request."""


class Elicitation:
    """Answers what one server asks.

    Args:
        ask: Asks a person; None if there is none.
        warn: Told, once, that questions are declined.
    """

    def __init__(self, ask: Ask | None, warn: Callable[[str], None]) -> None:
        self._ask = ask
        self._warn = warn
        self._warned = False

    @property
    def answered(self) -> bool:
        """Whether there is anyone to ask, which servers are told when they are met."""
        return self._ask is not None

    async def answer(self, request: InputRequest) -> InputResponse | ErrorData:
        """Return the answer to a question, or an error where the protocol knows no other refusal."""
        from mcp_types import ElicitRequest, ErrorData, ListRootsRequest, ListRootsResult

        if isinstance(request, ElicitRequest):
            return await self.elicit(None, request.params)
        if isinstance(request, ListRootsRequest):
            return ListRootsResult(roots=[])
        self._decline("the use of a language model")
        return ErrorData(code=_REJECTED, message="Sampling is declined: this client has no language model")

    async def elicit(self, context: object, params: ElicitRequestParams) -> ElicitResult:
        """Return the answer to a form, with defaults filled in, or a decline."""
        from mcp_types import ElicitRequestFormParams, ElicitResult

        if self._ask is None or not isinstance(params, ElicitRequestFormParams):
            self._decline(f"input: {params.message!r}")
            return ElicitResult(action="decline")
        schema = params.requested_schema
        given = await asyncio.to_thread(self._ask, params.message, schema)
        if given is None:
            return ElicitResult(action="decline")
        return ElicitResult(action="accept", content={**_defaults(schema), **given})

    def _decline(self, what: str) -> None:
        if not self._warned:
            self._warned = True
            self._warn(f"asks for {what}; declined, as nobody is there to answer")


def _defaults(schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    fields = properties.items() if isinstance(properties, Mapping) else ()
    return {name: field["default"] for name, field in fields if "default" in field}
