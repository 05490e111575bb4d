"""A server's list of tools: its pages put together, and how long they may be taken for true."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pflow_mcp_plugin.types import Tool

_MAX_PAGES = 100
_MAX_FRESH_SECONDS = 3600.0

RequestPage = Callable[[str | None], Awaitable[tuple[str | None, Mapping[str, Any]]]]
"""Asks for the page at a cursor; gives the next cursor and the raw page."""


class ToolPages:
    """The pages of one whole list.

    Attributes:
        raw: The tools as they came.
        notes: What is odd about the pages.
        fresh_seconds: How long the server says that the list holds (`ttlMs`); 0 if it does not say.
    """

    def __init__(self) -> None:
        self.raw: list[Mapping[str, Any]] = []
        self.notes: list[str] = []
        self.fresh_seconds = _MAX_FRESH_SECONDS
        self._pages: list[Any] = []

    async def collect(self, request: RequestPage) -> None:
        """Ask for page after page, up to the last, one that came before, or the hundredth."""
        cursor, seen = None, set()
        for _ in range(_MAX_PAGES):
            cursor, page = await request(cursor)
            self._add(page)
            if cursor is None:
                return
            if cursor in seen:
                self.notes.append(f"its list of tools repeats itself (cursor {cursor!r}); stopped there")
                return
            seen.add(cursor)
        self.notes.append(f"its list of tools has more than {_MAX_PAGES} pages; stopped there")

    def _add(self, page: Mapping[str, Any]) -> None:
        self.fresh_seconds = min(self.fresh_seconds, _fresh_seconds(page))
        tools = page.get("tools", [])
        if tools not in self._pages:  # a page that comes again is no second tool of each name
            self._pages.append(tools)
            self.raw += tools

    def tools(self) -> tuple[tuple[Tool, ...], list[tuple[str, str]]]:
        """Return the tools, without those that share a name, and the names of these with the reason.

        Which of them a call would reach is anyone's guess.
        """
        count = Counter(tool["name"] for tool in self.raw)
        reasons = [
            (name, f"{times} tools have this name; none is used")
            for name, times in sorted(count.items())
            if times > 1
        ]
        return tuple(_tool(tool) for tool in self.raw if count[tool["name"]] == 1), reasons


def _fresh_seconds(page: Mapping[str, Any]) -> float:
    hint = page.get("ttlMs")
    if not isinstance(hint, int | float) or not hint > 0:  # nan is above nothing
        return 0.0
    return min(hint, _MAX_FRESH_SECONDS * 1000) / 1000


def _tool(raw: Mapping[str, Any]) -> Tool:
    return Tool(
        name=raw["name"],
        description=raw.get("description") or "",
        input_schema=raw.get("inputSchema") or {},
        output_schema=raw.get("outputSchema"),
        annotations=raw.get("annotations") or {},
        title=raw.get("title") or "",
        meta=raw.get("_meta") or {},
    )
