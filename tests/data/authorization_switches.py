"""What an authorization server of the tests does, as a test wants it."""

from __future__ import annotations

from typing import Any, Literal

import attrs


@attrs.define(kw_only=True)
class Switches:
    """What is switched with `AuthorizationServer.switch`, and what it is at the start.

    Attributes:
        consent: What the person at the login page says: `auto` approves without a page, `deny` denies
            without one, `page` shows a page and waits for a click (`browser.py` has one who clicks).
        refresh_tokens: Whether there are any.
        scopes: The scopes that exist.
        granted: The most that is granted, whatever is requested; None for all.
        loopback_ports: Whether the port of a redirect to loopback may differ from the registered one.
        client_documents: Whether a client id may be the URL of a client metadata document.
        registration: Whether clients may register.
        registered_method: How a client that registers has to show who it is, whatever it asked for.
        secret_seconds: How long the secret of one that registers is good for, as it is told; 0 for ever.
        device: Whether there is a device flow.
        pending_polls: How often a device is told to wait before `consent` is asked.
        slow_downs: How many of the next answers to a device that waits say `slow_down`.
        interval: How many seconds a device is to wait between two polls.
        metadata: What the metadata says instead; a field that is None is left out. So the issuer can be
            wrong, S256 missing, and any endpoint a URL of any kind.
    """

    consent: Literal["auto", "deny", "page"] = "auto"
    refresh_tokens: bool = True
    scopes: list[str] = attrs.field(
        factory=lambda: ["notes:read", "notes:write", "notes:delete", "offline_access"]
    )
    granted: list[str] | None = None
    loopback_ports: bool = True
    client_documents: bool = True
    registration: bool = True
    registered_method: str | None = None
    secret_seconds: int = 0
    device: bool = True
    pending_polls: int = 1
    slow_downs: int = 0
    interval: int = 1
    metadata: dict[str, Any] = attrs.field(factory=dict)
