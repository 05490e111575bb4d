"""The node `echo`."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import pocketflow

from pflow_mcp_plugin.host.nodes.node_arguments import argument


class Echo(pocketflow.Node):
    """The node `echo` passes its message on: a constant, or several values combined in one string."""

    def prep(self, shared: MutableMapping[str, Any]) -> object:
        """Return the message that `echo` gets, from the params or else from the shared store."""
        return argument(self.params, shared, "message")

    def exec(self, prep_res: object) -> object:
        """Return the message that `echo` gets, unchanged."""
        return prep_res

    def post(self, shared: MutableMapping[str, Any], prep_res: object, exec_res: object) -> str:
        """Write the `message` of `echo` and return the action.

        Args:
            shared: The node's view of the shared store.
            prep_res: What `prep` returned.
            exec_res: What `exec` returned.
        """
        shared["message"] = exec_res
        return "default"
