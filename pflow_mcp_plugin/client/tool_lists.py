"""A server's tool list: its pages combined, how long it may be cached, and its secrets redacted.

A server may repeat its own config in what it says, on purpose or in an example of a command.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import attrs

from pflow_mcp_plugin.exchange import Launch, Listing
from pflow_mcp_plugin.redaction import Redactor, unusual
from pflow_mcp_plugin.terminal.human_units import names_text
from pflow_mcp_plugin.types import ServerInfo, Tool

_MAX_PAGES = 100

RequestPage = Callable[[str | None], Awaitable[tuple[str | None, Mapping[str, Any]]]]
"""Requests the page of tools at a cursor; returns the next cursor and the raw page."""
_NAMED = 5
_CONTAINS = "contains a secret of its config, which is redacted"


class ToolPages:
    """The pages of a server's tool list."""

    def __init__(self) -> None:
        self.raw: list[Mapping[str, Any]] = []  # the tools as received
        self.notes: list[str] = []  # irregularities of the pages
        self.fresh_seconds = 3600.0  # how long the list may be cached at most; 0 if no page says
        self._pages: list[object] = []

    async def collect(self, request: RequestPage) -> None:
        """Collect the tool list page by page: to the last one, a repeated cursor, or the hundredth page."""
        cursor, seen = None, set()
        for _ in range(_MAX_PAGES):
            cursor, page = await request(cursor)
            hint = page.get("ttlMs")
            # nan compares as not greater
            milliseconds = hint if isinstance(hint, int | float) and hint > 0 else 0
            # Compared before the division: a number may be too large for a float.
            self.fresh_seconds = min(milliseconds, self.fresh_seconds * 1000) / 1000
            tools = page.get("tools", [])
            if tools not in self._pages:  # a repeated page must not make its tools duplicates
                self._pages.append(tools)
                self.raw += tools
            if cursor is None:
                return
            if cursor in seen:
                self.notes.append(f"its list of tools repeats itself (cursor {cursor!r}); stopped there")
                return
            seen.add(cursor)
        self.notes.append(f"its list of tools has more than {_MAX_PAGES} pages; stopped there")

    def tools(self) -> tuple[tuple[Tool, ...], list[tuple[str, str]]]:
        """Return the tools of all pages without those that share a name, and `(name, reason)` of the latter.

        It is undefined which tool of a shared name a call would reach.
        """
        count = Counter(tool["name"] for tool in self.raw)
        reasons = [
            (name, f"{times} tools have this name; all are skipped")
            for name, times in sorted(count.items())
            if times > 1
        ]
        tools = []
        for raw in self.raw:
            if count[raw["name"]] > 1:
                continue
            execution = raw.get("execution")
            support = execution.get("taskSupport") if isinstance(execution, Mapping) else None
            tools.append(
                Tool(
                    name=raw["name"],
                    description=raw.get("description") or "",
                    input_schema=raw.get("inputSchema") or {},
                    output_schema=raw.get("outputSchema"),
                    annotations=raw.get("annotations") or {},
                    title=raw.get("title") or "",
                    meta=raw.get("_meta") or {},
                    task_support=support if isinstance(support, str) else "",
                )
            )
        return tuple(tools), reasons


def redactor_of(launch: Launch) -> Redactor:
    """Return the redactor for a server's tool list: for secrets in its config, except common words.

    A tool may well have an argument `password`, and a database on the user's machine that password.
    """
    return Redactor(unusual(launch.redactor.known, 8))


def redacted_info(info: ServerInfo, redactor: Redactor) -> tuple[ServerInfo, tuple[str, ...]]:
    """Beside a server's tool list, redact what it says of itself; return it, with a note on secrets."""
    shown = attrs.evolve(
        info,
        name=redactor.piece(info.name),
        version=redactor.piece(info.version),
        instructions=redactor.piece(info.instructions),
        capabilities=redactor.value(info.capabilities),
    )
    note = f"what it says about itself {_CONTAINS}"
    return shown, () if shown == info else (note,)


def redacted_listing(listing: Listing, redactor: Redactor) -> Listing:
    """Return a tool list with the secrets that the server repeats in it redacted; notes name the tools.

    A tool is skipped if its name, or that of an argument, contains a secret: it could not be called
    without that name.
    """
    tools, skipped, changed = [], [], []
    for tool in listing.tools:
        shown = attrs.evolve(
            tool,
            name=redactor.piece(tool.name),
            title=redactor.piece(tool.title),
            description=redactor.piece(tool.description),
            input_schema=redactor.value(tool.input_schema),
            output_schema=redactor.value(tool.output_schema),
            annotations=redactor.value(tool.annotations),
            meta=redactor.value(tool.meta),
        )
        if shown.name != tool.name:
            skipped.append((shown.name, "its name contains a secret of the server's config"))
            continue
        properties = tool.input_schema.get("properties")
        names = properties if isinstance(properties, Mapping) else ()
        if any(redactor.piece(name) != name for name in names):
            reason = "the name of an argument contains a secret of the server's config"
            skipped.append((shown.name, reason))
            continue
        tools.append(shown)
        if shown != tool:
            changed.append(tool.name)
    notes = [*map(redactor.piece, listing.notes)]
    if changed:
        notes.append(f"what it says about {names_text(changed, _NAMED)} {_CONTAINS}")
    return attrs.evolve(
        listing,
        tools=tuple(tools),
        skipped=(*((redactor.piece(name), redactor.piece(why)) for name, why in listing.skipped), *skipped),
        notes=tuple(notes),
    )
