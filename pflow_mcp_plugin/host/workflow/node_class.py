"""The class of a node type, imported when a node is about to run."""

from __future__ import annotations

import importlib
from functools import partial
from typing import Any

from pflow_mcp_plugin.contract import NodeRef, PflowError
from pflow_mcp_plugin.host.foreign_code import foreign_code
from pflow_mcp_plugin.host.workflow.findings import said


def load_node(ref: NodeRef) -> Any:
    """Import a node's class and return a new object of it.

    Raises:
        PflowError: It cannot be imported or instantiated.
    """
    entry = ref.entry
    with foreign_code(partial(_unloadable, ref)):
        return getattr(importlib.import_module(entry.module), entry.class_name)()


def _unloadable(ref: NodeRef, error: BaseException) -> PflowError:
    entry = ref.entry
    message = (
        f"Node {ref.id} ({ref.type}) cannot be loaded from {entry.module}:{entry.class_name}: {said(error)}"
    )
    step = f"Reinstall what provides {entry.source} nodes" if entry.source else "Check the registry entry"
    return PflowError(
        message, details={"node": ref.id, "node_type": ref.type}, suggestions=(step,), kind="config"
    )
