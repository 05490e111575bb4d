"""Requests of Starlette as Authlib reads them, and Authlib's answers as Starlette sends them."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from authlib.oauth2.rfc6749 import JsonPayload, JsonRequest, OAuth2Payload, OAuth2Request
from starlette.requests import Request
from starlette.responses import Response


class Inbound(OAuth2Request):
    """A request of Starlette as Authlib reads it; `await Inbound.read(request)`."""

    def __init__(self, request: Request, form: dict[str, str]) -> None:
        super().__init__(request.method, str(request.url), headers=request.headers)
        self._form = form
        self._args = dict(request.query_params)
        self.payload = _Payload([*request.query_params.multi_items(), *form.items()])

    @classmethod
    async def read(cls, request: Request) -> Inbound:
        """Read a request with its form."""
        return cls(request, {name: str(value) for name, value in (await request.form()).items()})

    @property
    def args(self) -> dict[str, str]:
        return self._args

    @property
    def form(self) -> dict[str, str]:
        return self._form

    @property
    def resource(self) -> str | None:
        """The resource indicator (RFC 8707)."""
        return self.payload.data.get("resource")


class _Payload(OAuth2Payload):
    def __init__(self, fields: list[tuple[str, str]]) -> None:
        self._data = dict(fields)
        self._lists: defaultdict[str, list[str]] = defaultdict(list)
        for name, value in fields:
            self._lists[name].append(value)

    @property
    def data(self) -> dict[str, str]:
        return self._data

    @property
    def datalist(self) -> defaultdict[str, list[str]]:
        return self._lists


class InboundJson(JsonRequest):
    """A request with JSON."""

    def __init__(self, request: Request, document: Any) -> None:
        super().__init__(request.method, str(request.url), request.headers)
        self.payload = _JsonPayload()
        self.payload.data = document


class _JsonPayload(JsonPayload):
    data: Any = None


class Answer(Response):
    """An answer of Authlib's; its `location` can be changed."""

    @property
    def location(self) -> str | None:
        return self.headers.get("location")

    @location.setter
    def location(self, value: str) -> None:
        self.headers["location"] = value
