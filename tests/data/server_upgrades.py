"""Real upgrades: what neighbouring released versions of five public servers answered to `tools/list`."""

import functools
import itertools
import json
import lzma
from pathlib import Path
from typing import Any, NamedTuple

from pflow_mcp_plugin.types import Tool


class Upgrade(NamedTuple):
    """One upgrade of a server: its package, and its tools before and after, by name."""

    package: str
    before: dict[str, Tool]
    after: dict[str, Tool]


@functools.cache
def upgrades() -> tuple[Upgrade, ...]:
    """Return the 21 upgrades."""
    data = json.loads(lzma.decompress(Path(__file__).with_name("server-upgrades.json.xz").read_bytes()))
    return tuple(
        Upgrade(package, *map(_tools, pair))
        for package, versions in data.items()
        for pair in itertools.pairwise(versions.values())
    )


def _tools(listed: Any) -> dict[str, Tool]:
    return {
        item["name"]: Tool(
            name=item["name"],
            title=item.get("title") or "",
            description=item.get("description") or "",
            input_schema=item["inputSchema"],
            output_schema=item.get("outputSchema"),
            annotations=item.get("annotations") or {},
        )
        for item in (listed["tools"] if isinstance(listed, dict) else listed)
    }
