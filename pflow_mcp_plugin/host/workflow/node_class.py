"""The class of a node type, imported when a node is about to run."""

from __future__ import annotations

import importlib
from typing import Any

from pflow_mcp_plugin.contract import Entry, NodeRef, PflowError
from pflow_mcp_plugin.host.workflow.findings import said


def load_node(ref: NodeRef) -> Any:
    """Import a node's class and return a new object of it.

    Raises:
        PflowError: It cannot be imported or instantiated.
    """
    entry = ref.entry
    try:
        return getattr(importlib.import_module(entry.module), entry.class_name)()
    except Exception as error:
        raise _unloadable(ref, entry, error) from error


def _unloadable(ref: NodeRef, entry: Entry, error: Exception) -> PflowError:
    message = (
        f"Node {ref.id} ({ref.type}) cannot be loaded from {entry.module}:{entry.class_name}: {said(error)}"
    )
    step = f"Reinstall what provides {entry.source} nodes" if entry.source else "Check the registry entry"
    return PflowError(
        message, details={"node": ref.id, "node_type": ref.type}, suggestions=(step,), kind="config"
    )
