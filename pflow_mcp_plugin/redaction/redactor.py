"""The redactor, which is told secrets and replaces them in text that comes from elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pflow_mcp_plugin.redaction.secret_forms import SecretForms

REDACTED = "***"
SHORTEST = 4
"""Shorter values are not redacted: that would garble ordinary text and hide nothing."""
_ORDINARY = frozenset(
    {
        *(
            "default",
            "development",
            "disabled",
            "enabled",
            "latest",
            "localhost",
            "master",
            "password",
            "postgres",
        ),
        *("private", "production", "public", "release", "staging", "stable", "127.0.0.1", "0.0.0.0"),  # noqa: S104
    }
)


def unusual(values: Iterable[str], shortest: int) -> Iterator[str]:
    """Yield the values a `Redactor` can replace in names and prose without garbling them: no common words.

    Those with fewer than `shortest` characters are words that any text may use.
    """
    for value in values:
        if len(value) >= shortest and value.lower() not in _ORDINARY:
            yield value


class Redactor:
    """Redacts known secrets as `***`; more may be added at any time, from any thread.

    A secret is found in every form in which programs write it: see `secret_forms`. Text is redacted first
    and cut afterwards. Where that is not possible, the cut is marked by `...`: the part of a secret beside
    it is found, too.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._lock = threading.Lock()
        self._secrets: frozenset[str] = frozenset()
        self._numbers: dict[str, str] = {}  # the secrets that are numbers, by their digits
        self.add(values)

    def __reduce__(self) -> tuple[type[Redactor], tuple[tuple[str, ...]]]:
        return type(self), (tuple(self._secrets),)

    def add(self, values: Iterable[str]) -> None:
        wanted = {value for value in values if len(value) >= SHORTEST}
        numbers = {digits: value for value in wanted if (digits := _digits_in(value))}
        with self._lock:
            self._secrets |= wanted
            self._numbers = {**self._numbers, **numbers}

    @property
    def known(self) -> frozenset[str]:
        return self._secrets

    def text(self, text: str) -> str:
        forms = self._forms()
        if forms is None or len(text) < SHORTEST:
            return text
        pattern = forms.pattern(text)
        if pattern is not None:
            text = pattern.sub(REDACTED, text)
        text = _without(text, forms.escaped_parts(text))
        return _without(text, forms.cut_parts(text, outer=False)) if "..." in text or "…" in text else text

    def piece(self, text: str) -> str:
        """Return a piece of a longer text, redacted, secrets that are cut at its ends included."""
        shown, forms = self.text(text), self._forms()
        return shown if forms is None else _without(shown, forms.cut_parts(shown, outer=True))

    def pieces(self, texts: Iterable[str]) -> list[str]:
        """Return consecutive pieces of a text, redacted; a secret may be split between two of them."""
        shown, forms = list(texts), self._forms()
        if forms is None:
            return shown
        for index in range(len(shown) - 1):
            left, right = shown[index : index + 2]
            end, start = left[-forms.reach :], right[: forms.reach]
            pattern = forms.pattern(end + start)
            for match in pattern.finditer(end + start) if pattern else ():
                if match.start() < len(end) < match.end():
                    before = len(left) - len(end) + match.start()
                    shown[index] = left[:before] + REDACTED
                    shown[index + 1] = REDACTED + right[match.end() - len(end) :]
        return [self.piece(text) for text in shown]

    def shortened(self, text: str, limit: int) -> str:
        """Return a text redacted, and then cut to `limit` characters with a note of how many there were."""
        shown = self.piece(text)
        return shown if len(shown) <= limit else f"{shown[:limit]}... ({len(shown):,} characters in all)"

    def value(self, value: Any) -> Any:
        """Return a JSON value with the secrets in its strings and keys redacted.

        Every string is taken as a piece of a longer text. A number that equals a secret, whatever its sign,
        is redacted as well; other numbers stay as they are.
        """
        forms = self._forms()
        if forms is None or not forms.may_be_in(list(_strings(value, self._numbers))):
            return value
        return self._redacted(value)

    def _redacted(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.piece(value)
        if isinstance(value, dict):
            return {self._redacted(key): self._redacted(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            items = self.strings_of(value)
            return [item if isinstance(item, str) else self._redacted(item) for item in items]
        return REDACTED if _is_number(value) and _digits(value) in self._numbers else value

    def strings_of(self, items: Sequence[Any]) -> list[Any]:
        strings = iter(self.pieces(item for item in items if isinstance(item, str)))
        return [next(strings) if isinstance(item, str) else item for item in items]

    def _forms(self) -> SecretForms | None:
        if not self._secrets:
            return None
        from pflow_mcp_plugin.redaction.secret_forms import forms_of

        return forms_of(self._secrets)


def _strings(value: Any, numbers: Mapping[str, str]) -> Iterator[str]:
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            left += item.keys()
            left += item.values()
        elif isinstance(item, list | tuple):
            left += reversed(item)
        elif _is_number(item):
            yield numbers.get(_digits(item), "")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -(2**63) < value < 2**63


def _digits(number: float) -> str:
    """Return the digits by which a redactor compares numbers: those of 5 for -5 and 5.0, too."""
    return repr(abs(int(number) if number == int(number) else number))


def _digits_in(text: str) -> str:
    """Return the digits of a secret that is a number, such as `-5`; empty if it is none."""
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        return _digits(number) if _is_number(number) else ""
    return ""


def _without(text: str, parts: Iterable[tuple[int, int]]) -> str:
    kept, after = [], 0
    for begin, end in parts:
        kept += [text[after:begin], REDACTED]
        after = end
    return "".join((*kept, text[after:])) if kept else text
