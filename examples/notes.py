"""Write a note and read it back, or say why that failed: nodes of tools in a plain pocketflow flow.

`python notes.py note.txt "Buy milk"`, after `pflow mcp sync filesystem`.
"""

from __future__ import annotations

import sys
from typing import Any

from pocketflow import Flow, Node

from pflow_mcp_plugin.nodes import McpFilesystemReadTextFileNode, McpFilesystemWriteFileNode, session


class Tell(Node):
    """Prints what a node before it left in the shared store."""

    def __init__(self, key: str) -> None:
        super().__init__()
        self._key = key

    def post(self, shared: dict[str, Any], prep_res: object, exec_res: object) -> None:
        """Print it."""
        print(shared[self._key])


def main(path: str, text: str) -> None:
    """Run the flow."""
    write = McpFilesystemWriteFileNode()  # takes path and content from the shared store
    read = McpFilesystemReadTextFileNode(head=1)
    failed = Tell("error")
    write >> read >> Tell("content")
    write - "error" >> failed
    read - "error" >> failed
    with session():  # both nodes use one server
        Flow(start=write).run({"path": path, "content": text})


if __name__ == "__main__":
    main(*sys.argv[1:])
