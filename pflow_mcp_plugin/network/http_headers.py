"""Headers of HTTP: those that users cannot set; an answer's media type, when to ask again, the next page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

FRAMING = frozenset({"connection", "content-length", "transfer-encoding", "upgrade"})
"""Headers that are never configured, as they decide where a request ends."""

_LINK = re.compile(r"<([^<>]*)>([^<]*)")
_REL = re.compile(r';\s*rel\s*=\s*(?:"([^"]*)"|([^\s;,"]+))', re.IGNORECASE)


def retry_after(text: str) -> float | None:
    """Return the seconds that a `Retry-After` header (RFC 9110, 10.2.3) asks for; None if invalid or vast."""
    if re.fullmatch(r"\s*\d{1,8}\s*", text):
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if date.tzinfo is None:  # the zone `-0000`: UTC of unknown origin
        date = date.replace(tzinfo=UTC)
    return max(0.0, (date - datetime.now(UTC)).total_seconds())


def media_type(headers: Mapping[str, str]) -> str:
    """Return the media type that an HTTP answer's headers state, without parameters; empty if none."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def next_link(text: str) -> str:
    """Return the URL with the relation `next` in a `Link` header (RFC 8288); empty if there is none."""
    for link in _LINK.finditer(text):
        relation = _REL.search(link[2])
        if relation and "next" in (relation[1] or relation[2] or "").lower().split():
            return link[1].strip()
    return ""
