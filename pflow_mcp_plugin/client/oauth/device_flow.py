"""The device authorization grant (RFC 8628): a person enters a code in a browser, on any device."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus

import attrs

from pflow_mcp_plugin.client.oauth.authorization_requests import Answer, AuthorizationRequests, place
from pflow_mcp_plugin.client.oauth.metadata import require_url
from pflow_mcp_plugin.client.oauth.sign_in_state import SignIn, Tokens
from pflow_mcp_plugin.client.oauth.token_endpoint import (
    DEVICE_GRANT,
    TokenRefused,
    authentication,
    refusal,
    requested_tokens,
    seconds_of,
)
from pflow_mcp_plugin.client.request_failures import NoAccessToken
from pflow_mcp_plugin.terminal.printable_text import one_line
from pflow_mcp_plugin.types import Server

_INTERVAL = 5.0
"""Seconds between two polls if the answer does not say."""
_WAITING = {"authorization_pending": 0.0, "slow_down": 5.0}
"""Seconds that the interval grows by for an answer to a device whose person has not decided yet."""
_EXPIRED = "its code expired before anybody entered it"
_ENDED = {"access_denied": "the login was denied", "expired_token": _EXPIRED}
_SHORTEST_INTERVAL = 0.2
"""Seconds between two polls at least, whatever the answer says."""
_LONGEST_PAUSE = 60.0
"""Seconds between two polls at most while the token endpoint cannot be reached."""
_EXPIRY = 600.0
_LONGEST_EXPIRY = 3_600.0
"""Seconds that a code is good for if the answer does not say, and at most."""
_SHOWN = 100


@attrs.frozen(kw_only=True)
class _Device:
    """What the authorization server issued to a device.

    Attributes:
        device_code: What the device asks for its tokens with, a secret.
        user_code: What a person enters, printable.
        page: Where they enter it: an https URL, or one on this machine.
        complete: The page with the code in its URL, empty if there is none.
        seconds: How long the codes are good for.
        interval: Seconds between two polls.
    """

    device_code: str = attrs.field(repr=False)
    user_code: str
    page: str
    complete: str
    seconds: float
    interval: float


async def device_tokens(
    requests: AuthorizationRequests,
    sign_in: SignIn,
    scopes: Sequence[str],
    show: Callable[[str], None],
) -> Tokens:
    """Return the tokens of a device that a person has approved, in a browser on any device."""
    device = await _device(requests, sign_in, scopes)
    show("\n".join(_instructions(device)))
    return await _polled(requests, sign_in, device)


async def _device(requests: AuthorizationRequests, sign_in: SignIn, scopes: Sequence[str]) -> _Device:
    """Request the codes of a device."""
    client, found = sign_in.registration, sign_in.authorization_server
    fields, headers = authentication(client, found, requests.server.auth)
    form = {"client_id": client.client_id, "resource": sign_in.resource, **fields}
    if scopes:
        form["scope"] = " ".join(scopes)
    answer = await requests.post(found.device_authorization_endpoint, form, headers)
    if answer.status != HTTPStatus.OK or "error" in (answer.content or {}):
        raise refusal(answer, "device authorization endpoint", form)
    return _issued(requests.server, answer)


def _issued(server: Server, answer: Answer) -> _Device:
    """Return the codes in an answer; what is shown of it can steer neither a terminal nor a browser."""
    where = f"the device authorization endpoint {place(answer.url)}"
    content = answer.content or {}

    def text(name: str) -> str:
        value = content.get(name)
        if not isinstance(value, str) or not value.strip():
            raise NoAccessToken(f"{where} answered without a {name}", "operator")
        return value.strip()

    def page(name: str) -> str:
        value = text(name)
        require_url(server, f"{name} of {where}", value)
        return value

    seconds, interval = seconds_of(content.get("expires_in")), seconds_of(content.get("interval"))
    return _Device(
        device_code=text("device_code"),
        user_code=one_line(text("user_code")[:_SHOWN]),
        page=page("verification_uri"),
        complete=page("verification_uri_complete") if content.get("verification_uri_complete") else "",
        seconds=_EXPIRY if seconds is None else min(seconds, _LONGEST_EXPIRY),
        interval=_INTERVAL if interval is None else max(interval, _SHORTEST_INTERVAL),
    )


def _instructions(device: _Device) -> Iterator[str]:
    minutes = max(1, round(device.seconds / 60))
    limit = f"{minutes} minute{'' if minutes == 1 else 's'}"
    yield f"Open this URL in a browser, on any device:\n\n  {device.page}\n"
    yield f"There, enter this code within {limit}:\n\n  {device.user_code}\n"
    if device.complete:
        yield f"Or open this URL, which has the code in it:\n\n  {device.complete}\n"


async def _polled(requests: AuthorizationRequests, sign_in: SignIn, device: _Device) -> Tokens:
    """Ask for the tokens until the person has decided, or the code has expired."""
    from asyncio import sleep

    form = {"grant_type": DEVICE_GRANT, "device_code": device.device_code}
    end = time.monotonic() + device.seconds
    pause = interval = device.interval
    trouble = ""
    while True:
        await sleep(min(pause, max(0.0, end - time.monotonic())))
        if time.monotonic() >= end:
            raise NoAccessToken(f"{_EXPIRED}{trouble}", "login")
        try:
            return await requested_tokens(requests, sign_in, form)
        except TokenRefused as refused:
            interval += _slower(refused)
            pause, trouble = interval, ""
        except NoAccessToken as failure:
            if failure.remedy != "later":
                raise
            pause, trouble = min(2 * pause, max(_LONGEST_PAUSE, interval)), f"; {failure.reason}"


def _slower(refused: TokenRefused) -> float:
    """Return the seconds to add to the interval while the person has not decided yet."""
    if refused.code in _WAITING:
        return _WAITING[refused.code]
    if refused.code in _ENDED:
        raise NoAccessToken(_ENDED[refused.code], "login") from refused
    raise refused
