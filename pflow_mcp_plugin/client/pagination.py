"""A server's tool list: its pages combined, and how long the list may be cached."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.types import Tool

_MAX_PAGES = 100
_MAX_FRESH_SECONDS = 3600.0
"""How long a tool list is cached at most, whatever its pages say."""

RequestPage = Callable[[str | None], Awaitable[tuple[str | None, Mapping[str, Any]]]]
"""Requests the page of tools at a cursor; returns the next cursor and the raw page."""


class ToolPages:
    """The pages of one tool list.

    Attributes:
        raw: The tools as received.
        notes: Irregularities of the pages.
        fresh_seconds: How long the list may be cached (`ttlMs`); 0 if the server does not say.
    """

    def __init__(self) -> None:
        self.raw: list[Mapping[str, Any]] = []
        self.notes: list[str] = []
        self.fresh_seconds = _MAX_FRESH_SECONDS
        self._pages: list[object] = []

    async def collect(self, request: RequestPage) -> None:
        """Collect page after page until the last one, a repeated cursor, or the hundredth page."""
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
        if tools not in self._pages:  # a repeated page must not make its tools duplicates
            self._pages.append(tools)
            self.raw += tools

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
        return tuple(_tool(tool) for tool in self.raw if count[tool["name"]] == 1), reasons


def _fresh_seconds(page: JSONObject) -> float:
    hint = page.get("ttlMs")
    if not isinstance(hint, int | float) or not hint > 0:  # nan compares as not greater
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
        task_support=_task_support(raw.get("execution")),
    )


def _task_support(execution: object) -> str:
    support = execution.get("taskSupport") if isinstance(execution, Mapping) else None
    return support if isinstance(support, str) else ""
