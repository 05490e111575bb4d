"""Detects which parts of a server's config are secrets, by their names and positions.

What has the shape of a token is a secret, too: see `token_shapes`. These are heuristics that prefer to
mask too much: a missed secret is shown only to the user who wrote it. References are more reliable:
every value they bring into `env`, `headers` and `auth` is secret (see `expansion`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_SECRET = re.compile(
    r"auth|bearer|cookie|credential|dsn|jwt|key|pass(?!ive)|pwd|secret|session|\bsig\b|signature|token"
    r"|(?:^|[_-])pat(?:$|[_-])",
    re.IGNORECASE,
)
_ABOUT_ONE = re.compile(
    r"^(?:allow|disable|enable|no|require|skip|use)[_-]"
    r"|max[_-]?tokens"
    r"|(?:askpass|command|count|dir|endpoint|expiry|file|folder|handler|helper|length|limit|mode|path|provider|scheme"
    r"|scopes?|script|size|timeout|ttl|type)$",
    re.IGNORECASE,
)
"""Names of properties of a secret, such as its file or length, that are not detected as secret."""
_NAMED = re.compile(r"-{0,2}(?P<name>[\w.-]+)(?:=|:\s*)(?=.)", re.DOTALL)
_FLAG = re.compile(r"-{1,2}(?P<name>\w[\w.-]*)")
_QUERY = re.compile(r"[?&](?P<name>[^=&#\s]+)=(?P<value>[^&#\s]+)")
_USER_INFO = re.compile(r"://(?P<user>[^/?#\s@:]*):(?P<password>[^/?#\s@]+)@")


def is_secret(name: str) -> bool:
    """Detect by its name whether a variable, header, option or query parameter contains a secret."""
    return _SECRET.search(name) is not None and _ABOUT_ONE.search(name) is None


def in_arguments(args: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Detect the arguments that contain a secret: yield `(index, start)`, where the secret begins.

    The forms are `--token=SECRET`, `--token SECRET`, `API_KEY=SECRET` and `Authorization: SECRET`.
    """
    for index, argument in enumerate(args):
        if (named := _NAMED.match(argument)) and is_secret(named["name"]):
            yield index, named.end()
        before = _FLAG.fullmatch(args[index - 1]) if index else None
        if before and is_secret(before["name"]) and not argument.startswith("-"):
            yield index, 0


def in_urls(text: str) -> Iterator[str]:
    """Detect the secrets in the URLs of a string: passwords, and query parameters such as `?api_key=`.

    A password equal to the user name does not count: redacting `postgres` in every message hides nothing.
    """
    found = _USER_INFO.finditer(text)
    yield from (each["password"] for each in found if each["password"] != each["user"])
    yield from (text[start:end] for start, end in in_queries(text))


def in_queries(text: str) -> Iterator[tuple[int, int]]:
    """Detect the secret values in URL queries: yield start and end of each."""
    yield from (found.span("value") for found in _QUERY.finditer(text) if is_secret(found["name"]))
