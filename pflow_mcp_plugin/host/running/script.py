"""Workflows written in Python: nodes of classes that are imported, wired by `>>` and `- "action" >>`.

    script = Script("greet", inputs={"name": {"type": "str"}}, outputs={"said": "${say.message}"})
    say = script.node("say", Echo, "echo", params={"message": "Hello ${name}"})
    raise SystemExit(script.main(say))

It is checked and run as the same workflow in JSON is, with templates, batches, retries, plugins
and a trace. `pflow workflow export-python` writes such programs. Importing this imports pocketflow.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import attrs
import pocketflow  # type: ignore[import-untyped]

from pflow_mcp_plugin.contract import Entry, Interface, Outcome, PflowError, Problem
from pflow_mcp_plugin.host.app import EmbeddedHost, open_host
from pflow_mcp_plugin.host.interruption import Interrupted
from pflow_mcp_plugin.host.workflow import Compiled, compile_workflow


class ScriptNode(pocketflow.BaseNode):  # type: ignore[misc]  # pocketflow ships no types
    """A node of a script; wire it as any pocketflow node."""

    def __init__(self, raw: Mapping[str, Any], node_class: type, special: Mapping[str, Any]) -> None:
        super().__init__()
        self.raw = raw
        self.node_class = node_class
        self.special = special


class Script:
    """A workflow whose nodes are added one by one.

    Args:
        name: For messages and the trace.
        settings: The workflow's other keys: `inputs`, `outputs`, `mappings`, `enable_namespacing`...
    """

    def __init__(self, name: str, **settings: Any) -> None:
        self.name = name
        self._settings = settings
        self._nodes: dict[str, ScriptNode] = {}

    def node(
        self,
        node_id: str,
        node_class: type,
        node_type: str,
        *,
        params: Mapping[str, Any] | None = None,
        special: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> ScriptNode:
        """Add a node.

        Args:
            node_id: Its id; templates name it so.
            node_class: What is instantiated, without arguments, when the script runs.
            node_type: Its type in the registry, which knows its parameters and outputs; any other
                word for a class of the script's own.
            params: Its params, templates and all.
            special: The `__dunder__` params that plugins give such a node.
            settings: Its other keys: `batch`, `retry`.
        """
        raw = {"id": node_id, "type": node_type, "params": dict(params or {}), **settings}
        node = self._nodes[node_id] = ScriptNode(raw, node_class, special or {})
        return node

    def workflow(self, start: ScriptNode) -> dict[str, Any]:
        """Return the workflow as JSON, edges as they are wired by now."""
        ids = {id(node): node_id for node_id, node in self._nodes.items()}
        edges = [
            {"from": node_id, "to": ids[id(target)], "action": action}
            for node_id, node in self._nodes.items()
            for action, target in node.successors.items()
        ]
        nodes = [dict(node.raw) for node in self._nodes.values()]
        return {**self._settings, "nodes": nodes, "edges": edges, "start_node": start.raw["id"]}

    def run(self, start: ScriptNode, **inputs: Any) -> Outcome:
        """Run from a node on and return how it ended.

        Raises:
            PflowError: The workflow or its inputs do not do; nothing has run.
        """
        with open_host() as host:
            return host.runner.run_compiled(self._compile(host, start, inputs), inputs)

    def main(self, start: ScriptNode, arguments: Sequence[str] | None = None) -> int:
        """Run as a program: inputs as `name=value`, outputs as JSON on standard output.

        Returns:
            The exit code that `pflow run` would end with.
        """
        from pflow_mcp_plugin.host.cli.inputs import parse_inputs, piped_inputs
        from pflow_mcp_plugin.host.cli.output import Output, prepare_streams, to_json
        from pflow_mcp_plugin.host.cli.run import outcome_report

        prepare_streams()
        output = Output(as_json=False)
        try:
            inputs = parse_inputs(sys.argv[1:] if arguments is None else arguments)
            inputs |= piped_inputs(self._settings, inputs, partial(self._check, start))
            outcome = self.run(start, **inputs)
        except PflowError as error:
            return output.fail(error)
        except KeyboardInterrupt:
            return output.fail(Interrupted("interrupted"))
        text = to_json(dict(outcome.outputs)) if outcome.success else ""
        return output.report(attrs.evolve(outcome_report(outcome), text=text))

    def _check(self, start: ScriptNode, inputs: Mapping[str, Any]) -> None:
        with open_host() as host:
            self._compile(host, start, inputs)

    def _compile(self, host: EmbeddedHost, start: ScriptNode, inputs: Mapping[str, Any]) -> Compiled:
        types = _Types(host, self._nodes)
        compiled = compile_workflow(self.workflow(start), self.name, types, host.plugins, inputs)
        nodes = []
        for planned in compiled.nodes:
            node = self._nodes[planned.ref.id]
            ref = attrs.evolve(planned.ref, entry=_of_class(planned.ref.entry, node.node_class))
            nodes.append(attrs.evolve(planned, ref=ref, special={**planned.special, **node.special}))
        return attrs.evolve(compiled, nodes=tuple(nodes))


class _Types:
    """The registry, and the classes of a script that it does not know."""

    def __init__(self, host: EmbeddedHost, nodes: Mapping[str, ScriptNode]) -> None:
        self._registry = host.registry
        self._own = {node.raw["type"] for node in nodes.values()}

    def find(self, node_type: str) -> Entry | None:
        """Return what the registry knows, else an entry that takes and gives anything."""
        known = self._registry.find(node_type)
        if known is not None or node_type not in self._own:
            return known
        # Its class is filled in when the plan is made.
        anything = Interface(open=True, open_outputs=True)
        return Entry(node=node_type, class_name="", module="", interface=anything)

    def missing(self, node_type: str) -> Problem:
        """Explain why a node type is not there."""
        return self._registry.missing(node_type)

    def upgrade(self, node: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return None: a script has no older shapes."""
        return None


def _of_class(entry: Entry, node_class: type) -> Entry:
    return attrs.evolve(entry, module=node_class.__module__, class_name=node_class.__name__)
