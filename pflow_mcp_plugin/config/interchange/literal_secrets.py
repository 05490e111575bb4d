"""Secrets that are written out in a server's table, and the table with references in their place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from pflow_mcp_plugin import secret_detection, variable_references
from pflow_mcp_plugin.config import auth, display, field_checks
from pflow_mcp_plugin.config.interchange.server_format import Table
from pflow_mcp_plugin.config.interchange.variable_syntax import variable_name

_SHORTEST = 4

IsTaken = Callable[[str, str], bool]
"""Tells whether a variable has a value other than the one given."""


@attrs.frozen(kw_only=True)
class LiteralSecret:
    """A secret that is written out.

    Attributes:
        field: Its field in the table, such as `env.API_KEY`.
        variable: The variable that could hold it.
        value: The secret.
    """

    field: str
    variable: str
    value: str = attrs.field(repr=False)


@attrs.frozen
class _Span:
    """A secret in a string: the field's path, a word for it, its start and end."""

    field: str
    word: str
    text: str
    start: int
    end: int


def extracted(server: str, table: Table, is_taken: IsTaken) -> tuple[Table, tuple[LiteralSecret, ...]]:
    """Return a table with a reference in place of each literal secret, and the secrets.

    A variable of the server's `env` is called the same outside; anything else, and a name that is taken,
    begins with the server's name.
    """
    secrets: list[LiteralSecret] = []
    given: dict[str, str] = {}

    def replaced(spans: list[_Span], text: str) -> str:
        for span in sorted(spans, key=lambda span: -span.start):
            value = text[span.start : span.end].replace("$${", "${")
            name = _free_name(
                server,
                span,
                value,
                lambda name, value: is_taken(name, value) or given.get(name, value) != value,
            )
            given[name] = value
            secrets.append(LiteralSecret(field=span.field, variable=name, value=value))
            text = f"{text[: span.start]}${{{name}}}{text[span.end :]}"
        return text

    changed = dict(table)
    for key in ("env", "headers", "auth"):
        if isinstance(changed.get(key), Mapping):
            changed[key] = {
                name: replaced(list(_spans(key, name, value)), value) if isinstance(value, str) else value
                for name, value in changed[key].items()
            }
    if _is_strings(changed.get("args")):
        changed["args"] = _in_args(str(changed.get("command", "")), changed["args"], replaced)
    if isinstance(changed.get("url"), str):
        changed["url"] = replaced(list(_in_url("url", changed["url"])), changed["url"])
    return changed, tuple(secrets)


def _is_strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _spans(key: str, name: str, value: str) -> Iterator[_Span]:
    if variable_references.references(value):
        return
    field = field_checks.join(key, name)
    is_whole = (
        name in auth.SECRET and name != "username" if key == "auth" else secret_detection.is_secret(name)
    )
    if not is_whole:
        yield from _in_url(field, value)
        return
    start = value.rstrip().rfind(" ") + 1 if key == "headers" else 0  # after `Bearer`
    if len(value) - start >= _SHORTEST:
        yield _Span(field, name if key == "env" else f"_{name}", value, start, len(value))


def _in_args(command: str, args: list[str], replaced: Callable[[list[_Span], str], str]) -> list[str]:
    """Return the arguments with references for secrets, but none for what may be a program or its code."""
    spans: dict[int, list[_Span]] = {}
    started = display.startable([command, *args])
    for index, start in secret_detection.in_arguments(args):
        text = args[index]
        is_word = len(text[start:].split()) == 1 or display.is_secret_only(text[start:])
        if not is_word or (start == 0 and index in started):
            continue
        option = text[:start].strip("-=: ") or args[index - 1].strip("-")
        if len(text) - start >= _SHORTEST and not variable_references.references(text):
            at = start + text[start:].rstrip().rfind(" ") + 1
            spans[index] = [_Span(f"args[{index}]", f"_{option}", text, at, len(text))]
    for index, text in enumerate(args):
        spans.setdefault(index, list(_in_url(f"args[{index}]", text)))
    return [replaced(spans[index], text) for index, text in enumerate(args)]


def _in_url(field: str, text: str) -> Iterator[_Span]:
    """Yield the secrets of URLs in a string: passwords, and values of the query."""
    end = 0
    for value in sorted(set(secret_detection.in_urls(text)), key=text.index):
        start = text.find(value, end)
        if start >= 0 and len(value) >= _SHORTEST and not variable_references.references(value):
            before = text[:start].rstrip("=")
            in_query = text[start - 1 : start] == "="
            word = before[max(before.rfind("?"), before.rfind("&")) + 1 :] if in_query else "password"
            end = start + len(value)
            yield _Span(field, f"_{word}", text, start, end)


def _free_name(server: str, span: _Span, value: str, is_taken: IsTaken) -> str:
    own = variable_name(f"{server}_{span.word}")
    names = [own] if span.word.startswith("_") else [variable_name(span.word), own]
    names += [f"{own}_{number}" for number in range(2, 100)]
    return next((name for name in names if not is_taken(name, value)), own)
