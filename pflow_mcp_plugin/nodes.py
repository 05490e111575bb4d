"""A Python class for every registered tool, for workflows written in Python.

    from pocketflow import Flow
    from pflow_mcp_plugin.nodes import McpFilesystemReadTextFileNode, McpDemoWordCountNode, session

    read = McpFilesystemReadTextFileNode(path="notes.txt")
    count = McpDemoWordCountNode()
    read >> count
    read - "error" >> tell
    with session():
        Flow(start=read).run(shared)

A class is created on first use, from the results of the last `pflow mcp sync`; `dir()` of this module
lists them all, and `pflow mcp stubs` writes them to a stub file for editors. Inside `session()` all
nodes share their connections, in every thread; a node outside opens one for its own call. Either way,
variables are looked up in the settings too, and the hooks around a call apply. For calls without a node, see
`pflow_mcp_plugin.calls`.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, MutableMapping
from contextlib import AbstractContextManager
from difflib import get_close_matches
from functools import cache
from typing import Any, ClassVar

from pflow_mcp_plugin import naming, storage
from pflow_mcp_plugin.calls import current_runtime, session
from pflow_mcp_plugin.contract import Entry, PflowError, Run
from pflow_mcp_plugin.discovery.servers import servers
from pflow_mcp_plugin.execution.node import Job, MCPNode, note_next_steps
from pflow_mcp_plugin.execution.result import ToolResult
from pflow_mcp_plugin.execution.runtime import Runtime
from pflow_mcp_plugin.registration import class_signature
from pflow_mcp_plugin.registration.tool_entry import tool_config
from pflow_mcp_plugin.registration.tool_source import ToolSource


class ToolNode(MCPNode):
    """A registered tool as a Python class, to import by its name: `from pflow_mcp_plugin.nodes import ...`.

    Args:
        params: Arguments of the tool, by name. Missing ones are read from the shared store under the
            same names when the node runs.

    A failure that the flow does not route is raised as `PflowError`; otherwise it becomes an action
    such as `rate_limited` or `error`, and `shared["error"]` has the message.

    Attributes:
        entry: Its registry entry.
        hidden_params: Params that it takes but does not show, as nobody approved them.
    """

    entry: ClassVar[Entry]
    hidden_params: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, /, **params: Any) -> None:
        super().__init__()
        known = [field.key for field in self.entry.interface.params]
        for name in () if self.entry.interface.open else params:
            if name not in {*known, *self.hidden_params}:
                near = get_close_matches(name, known, n=1) or known
                hint = (
                    f"did you mean {near[0]}?" if len(near) == 1 else f"it takes {', '.join(near) or 'none'}"
                )
                raise TypeError(f"{type(self).__name__} has no parameter {name!r}; {hint}")
        self._given = params
        self.set_params({})

    def set_params(self, params: Mapping[str, Any]) -> None:
        """Set params of this class's tool besides its keyword arguments; a `Flow` adds what neither has."""
        config = tool_config(self.entry)
        tool = {"__mcp_server__": config["server_id"], "__mcp_tool__": config["tool_name"]}
        super().set_params({**self._given, **params, **tool})

    def post(self, shared: MutableMapping[str, Any], prep_res: Job, exec_res: ToolResult | PflowError) -> str:
        """Write the outputs of this Python class's tool; raise a failure for which the flow has no edge.

        Args:
            shared: The shared store of the flow.
            prep_res: What `prep` returned.
            exec_res: What `exec` returned.

        Raises:
            PflowError: The call failed, and the flow has no edge for that action.
        """
        action = super().post(shared, prep_res, exec_res)
        if action != "default" and action not in self.successors:
            error: PflowError = shared["__error__"]
            note_next_steps(error)
            raise error
        return action

    def _runtime(self, run: Run | None) -> AbstractContextManager[Runtime]:
        return super()._runtime(run) if run else current_runtime()


def class_for(node_type: str) -> type[ToolNode]:
    """Return the class that Python imports for a tool's node, such as `mcp-github-search-code`.

    Raises:
        ImportError: The node does not exist; the message has the reason, similar names and the next step.
    """
    source = _source()
    entry = source.get(node_type)
    if entry is None:
        name, problem = naming.class_name(node_type), source.missing(node_type)
        near = get_close_matches(name, [naming.class_name(each.node) for each in source.entries()], n=3)
        meant = f" Did you mean {' or '.join(near)}?" if near else ""
        why = f" ({problem.message})" if problem else ""
        message = f"Unknown node class {name}{why}.{meant} If its server is new, run: pflow mcp sync"
        raise ImportError(message, name=__name__)
    hidden = tuple(field.key for field in entry.interface.hidden)
    return _made(json.dumps(entry.to_dict(), sort_keys=True), hidden)


def __getattr__(name: str) -> type[ToolNode]:
    node_type = class_signature.node_type(name)
    if node_type is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return class_for(node_type)


def __dir__() -> list[str]:
    return sorted([*__all__, *(naming.class_name(entry.node) for entry in _source().entries())])


def _source() -> ToolSource:
    known = servers(storage.default_paths())
    return ToolSource(known.catalog, known.store)


@cache  # equal entries share a class
def _made(description: str, hidden: tuple[str, ...]) -> type[ToolNode]:
    entry = Entry.from_dict(json.loads(description))
    config, keyword = tool_config(entry), inspect.Parameter.KEYWORD_ONLY
    params = [
        inspect.Parameter(field.key, keyword, default=..., annotation=class_signature.hint(field))
        for field in entry.interface.params
        if class_signature.named(field)
    ]
    if class_signature.has_others(entry):
        others = inspect.Parameter.VAR_KEYWORD
        params.append(inspect.Parameter(class_signature.rest(entry), others, annotation="Any"))
    body = {
        "__doc__": class_signature.docstring(entry),
        "__module__": __name__,
        "__signature__": inspect.Signature(params),
        "entry": entry,
        "hidden_params": frozenset(hidden),
        "_mcp_server_id": config["server_id"],
        "_mcp_tool_name": config["tool_name"],
        "_mcp_tool_version": config["version"],
        "_mcp_manifest_hash": config["manifest_hash"],
    }
    return type(naming.class_name(entry.node), (ToolNode,), body)


__all__ = ["ToolNode", "class_for", "session"]
