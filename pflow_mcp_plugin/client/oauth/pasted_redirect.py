"""Receives the redirect that ends a login as text: the person pastes it from their browser's address bar."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from pflow_mcp_plugin.client.oauth.authorization_requests import place
from pflow_mcp_plugin.client.oauth.authorization_response import fields_of, is_answer_to
from pflow_mcp_plugin.client.oauth.loopback_listener import HOST, PATH
from pflow_mcp_plugin.client.oauth.person import Person
from pflow_mcp_plugin.client.request_failures import NoAccessToken

_ASKED = """When you have signed in, your browser goes to {where}?code=...
It need not be able to open that page. Copy the whole URL from its address bar, and paste it here:"""


class PastedRedirect:
    """Waits for a redirect that is pasted; used as `LoopbackListener` is.

    Args:
        person: Who pastes it.
        port: The port of the redirect, at which nothing listens; 0 for any.
    """

    def __init__(self, person: Person, port: int = 0) -> None:
        self._person = person
        self._port = port

    @property
    def redirect_uri(self) -> str:
        """Where the authorization server has to send the browser."""
        return f"http://{HOST}:{self._port}{PATH}"

    async def __aenter__(self) -> Self:
        self._port = self._port or _free_port()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is open."""

    async def response(self, state: str) -> Mapping[str, str]:
        """Return the fields of the redirect that answers the request with a state; others are refused.

        Raises:
            NoAccessToken: Nothing more was pasted.
        """
        asked = _ASKED.format(where=self.redirect_uri)
        while line := self._person.read_redirect(asked).strip():
            wrong, fields = self._read(line, state)
            if not wrong:
                return fields
            asked = f"{wrong} Paste the whole URL:"
        raise NoAccessToken("no redirect was pasted", "login")

    def tell(self, title: str, text: str) -> None:
        """Show nothing: the browser has no page of ours."""

    def _read(self, line: str, state: str) -> tuple[str, Mapping[str, str]]:
        """Return what is wrong with a pasted line, or the fields in it."""
        where, mark, query = line.partition("?")
        if not mark and "=" in line:  # what follows the mark
            where, query = self.redirect_uri, line
        fields = fields_of(urlsplit(f"?{query}").query)
        if where != self.redirect_uri:
            is_url = "://" in where
            wrong = f"a URL of {place(where)}, not of {self.redirect_uri}" if is_url else "not a URL"
            return f"That is {wrong}.", {}
        if "state" not in fields:
            return "That is not all of it: it has no state.", {}
        if not is_answer_to(state, fields):
            return "That is the answer to another login: its state differs.", {}
        return "", fields


def _free_port() -> int:
    import socket

    with socket.socket() as found:
        found.bind((HOST, 0))
        return int(found.getsockname()[1])
