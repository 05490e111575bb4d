"""The tools of LiveMCPBench: what 70 real servers list, and how they are started."""

import json
import lzma
from pathlib import Path
from typing import Any, NamedTuple

from pflow_mcp_plugin import naming

FILE = Path(__file__).with_name("livemcpbench-tools.json.xz")


class RealServer(NamedTuple):
    """A server: its name as it can be configured, its entry in the config, its tools, its name there."""

    name: str
    config: dict[str, Any]
    tools: list[dict[str, Any]]
    given: str


def servers() -> list[RealServer]:
    """Return every server; each call reads them anew, so that a test may do as it likes with them."""
    return [
        RealServer(naming.server_name(name), item["config"]["mcpServers"][name], listed["tools"], name)
        for item in json.loads(lzma.decompress(FILE.read_bytes()))
        for name, listed in item["tools"].items()
    ]
