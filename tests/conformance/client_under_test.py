"""The client that the conformance suite tests: this package's own `Pool`, over HTTP.

The suite runs it once for each scenario, as `python client_under_test.py URL`. What to do beyond
connecting, listing and calling every tool is in `SCENARIOS`. Where a server wants a sign-in, the client
is the program `pflow` as a whole, used by a `TerminalSession`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from terminal_session import use_server

from pflow_mcp_plugin.client import Pool
from pflow_mcp_plugin.errors import CallFailed
from pflow_mcp_plugin.exchange import Launch, Listing, ToolCall
from pflow_mcp_plugin.types import Server

# What a tool gets when its scenario names no arguments, by the type of the parameter.
_SAMPLES: dict[str, Any] = {"string": "text", "integer": 1, "number": 1, "boolean": True, "object": {}}


def main() -> int:
    """Run the scenario that the environment names."""
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    revision = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "auto")
    if scenario.startswith("auth/"):
        return use_server(sys.argv[1], revision, scenario, _context())
    launch = Launch(server=Server(name="suite", transport="http", url=sys.argv[1], protocol=revision))
    act = SCENARIOS.get(scenario, call_every_tool)
    with Pool(complain) as pool:
        act(pool, launch, pool.list_tools(launch))
    return 0


def complain(text: str) -> None:
    """Write what a user would be told where the suite keeps it."""
    print(text, file=sys.stderr)


def call(pool: Pool, launch: Launch, tool: str, arguments: Mapping[str, Any]) -> None:
    """Call a tool; what it answers is between it and the suite."""
    try:
        print(tool, pool.call(launch, ToolCall(server="suite", tool=tool, arguments=arguments)).content)
    except CallFailed as error:
        complain(str(error))


def call_every_tool(pool: Pool, launch: Launch, listing: Listing) -> None:
    """Call every tool that is listed, with sample arguments."""
    for tool in listing.tools:
        properties = tool.input_schema.get("properties", {})
        needed = tool.input_schema.get("required", [])
        arguments = {name: _SAMPLES.get(properties[name].get("type"), "text") for name in needed}
        call(pool, launch, tool.name, arguments)


def call_as_told(pool: Pool, launch: Launch, listing: Listing) -> None:
    """Make the calls that the scenario's context asks for."""
    for wanted in _context()["toolCalls"]:
        call(pool, launch, wanted["name"], wanted["arguments"])


def echo_a_schema(pool: Pool, launch: Launch, listing: Listing) -> None:
    """Send one tool's schema, as it was received, to the other tool."""
    schemas = {tool.name: tool.input_schema for tool in listing.tools}
    echo = next(name for name, schema in schemas.items() if "schema" in schema.get("properties", {}))
    focal = next(name for name in schemas if name != echo)
    call(pool, launch, echo, {"schema": schemas[focal]})


def _context() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    return found


def connect_only(pool: Pool, launch: Launch, listing: Listing) -> None:
    """Do nothing more."""


SCENARIOS: dict[str, Callable[[Pool, Launch, Listing], None]] = {
    "http-custom-headers": call_as_told,
    "initialize": connect_only,
    "json-schema-2020-12-preservation": echo_a_schema,
}


if __name__ == "__main__":
    sys.exit(main())
