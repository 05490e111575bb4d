"""HTTP 429 and its `Retry-After` header: when a request to a busy server may be sent again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TypeVar

from pflow_mcp_plugin.client.request_failures import RequestFailed

T = TypeVar("T")


async def with_retry_after(request: Callable[[], Awaitable[T]], until: Callable[[], float | None]) -> T:
    """Send a request; if the answer is 429 with a `Retry-After`, wait and send it once more.

    A server that answers 429 (RFC 6585, section 4) has not started the request: repeating it is safe.

    Args:
        request: Sends it.
        until: Returns the time of the event loop after which a retry is too late; None without a limit.

    Raises:
        RequestFailed: The request failed, or the server asks to wait beyond that time.
    """
    try:
        return await request()
    except RequestFailed as refusal:
        seconds = _pause(refusal, until())
        if seconds is None:
            raise
    await asyncio.sleep(seconds)
    return await request()


def _pause(refusal: RequestFailed, end: float | None) -> float | None:
    if refusal.exchange.status != HTTPStatus.TOO_MANY_REQUESTS:
        return None
    seconds = retry_after(refusal.exchange.headers.get("retry-after", ""))
    if seconds is None or end is None or asyncio.get_running_loop().time() + seconds >= end:
        return None
    return seconds


def retry_after(text: str) -> float | None:
    """Return the seconds that a `Retry-After` header asks for (RFC 9110, 10.2.3), None if it is invalid."""
    if text.strip().isdecimal():
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if date.tzinfo is None:  # the zone `-0000`: UTC of unknown origin
        date = date.replace(tzinfo=UTC)
    return max(0.0, (date - datetime.now(UTC)).total_seconds())
