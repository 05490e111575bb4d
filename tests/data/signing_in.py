"""A person who signs in at the servers of the tests, in this process."""

import asyncio
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import httpx2

from pflow_mcp_plugin.client.oauth.login import login
from pflow_mcp_plugin.client.oauth.login_flows import Person
from pflow_mcp_plugin.client.oauth.sign_in_state import SignIn
from pflow_mcp_plugin.client.oauth.sign_in_store import SignInKey, SignInStore
from pflow_mcp_plugin.exchange import Launch
from pflow_mcp_plugin.types import Server


class Visitor:
    """Somebody at a browser that follows redirects; the authorization server approves.

    Args:
        server: The protected server.
        folder: Where sign-ins are kept.

    Attributes:
        shown: What was shown to them.
        urls: The pages that were opened.
        pages: What they showed at the end: the status and the page.
        pastes: Turns the redirect that a page leads to into the lines that are pasted.
        visit: Called with a page that is to be opened, in place of a browser.
    """

    def __init__(self, server: Any, folder: Path) -> None:
        self.shown: list[str] = []
        self.urls: list[str] = []
        self.pages: list[tuple[int, str]] = []
        self.pastes: Callable[[str], list[str]] = lambda redirect: [redirect]
        self.visit: Callable[[str], None] = self.follow
        self._server = server
        self._folder = folder
        self._lines: list[str] | None = None
        self._threads: list[threading.Thread] = []

    def follow(self, url: str) -> None:
        """Go where a page leads to."""
        with self._server.client(follow_redirects=True) as client:
            answer = client.get(url)
        self.pages.append((answer.status_code, answer.text))

    def redirect_of(self, url: str) -> str:
        """Return where a page redirects to."""
        with self._server.client() as client:
            return str(client.get(url).headers["location"])

    def launch(self, **auth: Any) -> Launch:
        """Return the server, with these fields of `auth`."""
        server = Server(
            name="notes",
            transport="http",
            url=self._server.url,
            auth={"type": "oauth", **auth},
            ca_bundle=str(self._server.ca_file),
        )
        return Launch(server=server, sign_in_folder=self._folder)

    def sign_in(self, *scopes: str, browser: bool = True, **auth: Any) -> SignIn:
        """Sign in and return the sign-in."""
        person = Person(
            show=self.shown.append,
            open_url=self._open if browser else None,
            read_redirect=self._read,
        )
        try:
            return asyncio.run(login(self.launch(**auth), person, scopes))
        finally:
            for thread in self._threads:
                thread.join(20)

    def stored(self, **auth: Any) -> SignIn | None:
        """Return the sign-in that is stored."""
        key = SignInKey(self._server.url, str(auth.get("client_id", "")))
        return SignInStore(self._folder).read(key)

    def change_stored(self, **changed: Any) -> None:
        """Change the stored client."""
        sign_in = self.stored()
        assert sign_in is not None
        client = attrs.evolve(sign_in.registration, **changed)
        key = SignInKey(self._server.url)
        SignInStore(self._folder).write(key, attrs.evolve(sign_in, registration=client))

    def _open(self, url: str) -> None:
        self.urls.append(url)
        self._threads.append(threading.Thread(target=self.visit, args=(url,)))
        self._threads[-1].start()

    def _read(self, text: str) -> str:
        self.shown.append(text)
        if self._lines is None:
            url = self.shown[0].split()[-1]
            self._lines = self.pastes(self.redirect_of(url))
        return self._lines.pop(0) if self._lines else ""


def query_of(url: str) -> Mapping[str, str]:
    """Return the fields of a URL's query."""
    return dict(httpx2.URL(url).params)
