"""Keeps secrets out of output and records.

`mask` hides a configured value that is about to be printed; `Redactor` removes known secret values
from strings and JSON values.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from typing import Any

MASK = "****"
REDACTED = "***"
SHORTEST = 4
"""Shorter values are not redacted: that would garble ordinary text and hide nothing."""

_REFERENCE = re.compile(r"\$\{([^{}:]+)(?::-([^{}]*))?\}")
_REFERENCES_ONLY = re.compile(
    r"(?:(?:basic|bearer|digest|token|apikey|negotiate)\s+)?"
    r"(?:\$\{[^{}]+\}[\s:;,/@]*)+",
    re.IGNORECASE,
)


def mask(value: str) -> str:
    """Return a configured value in a form that is safe to print.

    A value that is only `${...}` references (perhaps after an auth scheme, as in
    `Bearer ${TOKEN}`) stays as it is, except that defaults in the references are masked. Any other
    value becomes `****`, whatever its length.
    """
    if not value:
        return value
    if not _REFERENCES_ONLY.fullmatch(value.strip()):
        return MASK
    return _REFERENCE.sub(_without_default, value)


class Redactor:
    """Replaces secret values by `***`; values may be added at any time, from any thread."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._lock = threading.Lock()
        self._secrets: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None
        self.add(values)

    def add(self, values: Iterable[str]) -> None:
        """Redact these values from now on, also in the escaped form they have inside a JSON document."""
        wanted = {form for value in values if len(value) >= SHORTEST for form in _forms(value)}
        with self._lock:
            if wanted <= self._secrets:
                return
            self._secrets |= wanted
            # A secret may begin with another one, whose redaction would leave the rest readable.
            longest_first = sorted(self._secrets, key=lambda secret: (-len(secret), secret))
            self._pattern = re.compile("|".join(map(re.escape, longest_first)))

    def text(self, text: str) -> str:
        """Return a string with the secrets redacted."""
        return text if self._pattern is None else self._pattern.sub(REDACTED, text)

    def value(self, value: Any) -> Any:
        """Return a JSON value with the secrets redacted from its strings and keys.

        A number that equals a secret is redacted as well; other numbers stay as they are.
        """
        if self._pattern is None:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.value(key): self.value(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        # A huge integer takes long to write, and Python refuses more than 4,300 digits.
        if not isinstance(value, int | float) or isinstance(value, bool) or not -(2**63) < value < 2**63:
            return value
        return REDACTED if repr(value) in self._secrets else value


def _without_default(reference: re.Match[str]) -> str:
    name, default = reference.groups()
    return f"${{{name}:-{MASK}}}" if default else reference[0]


def _forms(value: str) -> tuple[str, ...]:
    import json

    return (value, json.dumps(value, ensure_ascii=False)[1:-1], json.dumps(value)[1:-1])
