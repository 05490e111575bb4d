"""A server made with the SDK alone: 13 tools with the parameters of those that pflow serves.

`python benchmarks/bare_server.py [ANSWER]` serves them over stdio. Each tool returns ANSWER, the JSON of an
envelope, as structured content, so that both sides of a comparison send the same bytes.
"""

# ruff: noqa: A002, ARG001 - the parameters are those of the tools of pflow; no answer depends on them

import json
import sys
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp_types import ToolAnnotations
from pydantic import Field
from typing_extensions import TypedDict  # pydantic refuses that of typing before Python 3.12


class Failure(TypedDict, total=False):
    """What went wrong."""

    type: str
    message: str
    details: dict[str, Any]
    suggestions: list[str]


class Envelope(TypedDict, total=False):
    """The structured result of every tool."""

    schema: int
    success: bool
    data: dict[str, Any]
    error: Failure
    trace_path: str


ANSWER: Envelope = (
    json.loads(sys.argv[1]) if len(sys.argv) > 1 else {"schema": 1, "success": True, "data": {}}
)
READS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
WRITES = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=True)

Workflow = Annotated[str | dict[str, Any], Field(description="Name, path, or IR")]
Parameters = Annotated[dict[str, Any], Field(description="Values by name")]
server: MCPServer[Any] = MCPServer("bare", instructions="Tools that answer at once.")


@server.tool(annotations=READS)
def workflow_discover(query: Annotated[str, Field(description="Task description")]) -> Envelope:
    """Find existing workflows matching a request. Always run first."""
    return ANSWER


@server.tool(annotations=READS)
def registry_discover(task: Annotated[str, Field(description="What needs to be built")]) -> Envelope:
    """Find nodes for building workflows using intelligent selection."""
    return ANSWER


@server.tool(annotations=WRITES)
def registry_run(
    node_type: Annotated[str, Field(description="Name of the node")], parameters: Parameters
) -> Envelope:
    """Test a node to reveal actual output structure."""
    return ANSWER


@server.tool(annotations=WRITES)
def workflow_execute(workflow: Workflow, parameters: Parameters) -> Envelope:
    """Execute a workflow with structured output."""
    return ANSWER


@server.tool(annotations=READS)
def workflow_validate(workflow: Workflow) -> Envelope:
    """Validate workflow structure without execution."""
    return ANSWER


@server.tool(annotations=WRITES)
def workflow_save(
    workflow_file: Annotated[str, Field(description="Path of the workflow")],
    name: Annotated[str, Field(description="lowercase-with-hyphens")],
    description: Annotated[str, Field(description="What it is for")],
) -> Envelope:
    """Save workflow to global library."""
    return ANSWER


@server.tool(annotations=READS)
def registry_describe(nodes: Annotated[list[str], Field(description="Names of the nodes")]) -> Envelope:
    """Get detailed specifications for specific nodes."""
    return ANSWER


@server.tool(annotations=READS)
def registry_search(pattern: Annotated[str, Field(description="Words to search for")]) -> Envelope:
    """Search for nodes by pattern."""
    return ANSWER


@server.tool(annotations=READS)
def workflow_list(filter: Annotated[str, Field(description="Optional filter")] = "") -> Envelope:
    """List saved workflows."""
    return ANSWER


@server.tool(annotations=WRITES)
def settings_set(
    key: Annotated[str, Field(description="Name of the setting")],
    value: Annotated[str, Field(description="Its value")],
) -> Envelope:
    """Set API keys and credentials."""
    return ANSWER


@server.tool(annotations=READS)
def settings_get(key: Annotated[str, Field(description="Name of the setting")]) -> Envelope:
    """Get setting value."""
    return ANSWER


@server.tool(annotations=READS)
def registry_list() -> Envelope:
    """List all nodes (warning: returns hundreds)."""
    return ANSWER


@server.tool(annotations=READS)
def trace_read(trace_file: Annotated[str, Field(description="Path or 'latest'")] = "latest") -> Envelope:
    """Read execution trace for debugging."""
    return ANSWER


if __name__ == "__main__":
    server.run()
