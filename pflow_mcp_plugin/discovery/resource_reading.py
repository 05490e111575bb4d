"""What reads the resources of a server: one more node beside those of its tools."""

from __future__ import annotations

from pflow_mcp_plugin.types import Tool

READ_RESOURCE = Tool(
    name="read-resource",
    title="Read a resource",
    description="Read a resource of the server by its URI, such as one that the result of a tool links to",
    input_schema={
        "type": "object",
        "properties": {
            "uri": {"type": "string", "minLength": 1, "description": "The URI of the resource"},
        },
        "required": ["uri"],
        "additionalProperties": False,
    },
    annotations={"readOnlyHint": True},  # resources are data that a server exposes to be read
    method="resources/read",
)
"""What is called like a tool to read a resource; no server lists it, and no approval concerns it."""
