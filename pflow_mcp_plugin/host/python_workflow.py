"""Python workflows, as the host checks and runs them: nodes connected by `>>` and `- "action" >>`.

    script = Script("greet", inputs={"name": {"type": "str"}}, outputs={"said": "${say.message}"})
    say = script.node("say", "echo", params={"message": "Hello ${name}"})
    raise SystemExit(script.main(say))

An edge with a condition is written `- "default if say.message != ''" >>`.

Such a workflow is checked and run like the same workflow in JSON, with templates, batches, retries,
plugins and a trace. `pflow workflow export-python` writes such programs. Importing this module imports
pocketflow.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NoReturn, cast

import attrs
import pocketflow

from pflow_mcp_plugin.contract import Entry, Interface, Outcome, PflowError, RunOptions
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.contract.run_requests import USUAL_OPTIONS, USUAL_TTL
from pflow_mcp_plugin.contract.validators import is_reserved
from pflow_mcp_plugin.host.embedded_host import EmbeddedHost, open_host
from pflow_mcp_plugin.host.running import WorkflowRunner
from pflow_mcp_plugin.host.workflow import ChangedEntries, Compiled
from pflow_mcp_plugin.host.workflow.workflow_document import split_route
from pflow_mcp_plugin.terminal.looks import one_line


class ScriptNode(pocketflow.BaseNode):
    """A node of a workflow written in Python: connect it with `>>`, like any pocketflow node."""

    def __init__(self, raw: JSONObject, node_class: type | None) -> None:
        super().__init__()
        self.raw = raw
        self.node_class = node_class


class Script:
    """A Python workflow that the host checks and runs; its nodes are added one by one.

    Args:
        name: For messages and the trace.
        options: The options of its runs; its command line may add some.
        settings: The workflow's other keys: `inputs`, `outputs`, `mappings`, `enable_namespacing`...
    """

    def __init__(self, name: str, *, options: RunOptions = USUAL_OPTIONS, **settings: JSON) -> None:
        self.name = name
        self.options = options
        self._settings = settings
        self._nodes: dict[str, ScriptNode] = {}

    def node(
        self,
        node_id: str,
        node_type: str | pocketflow.BaseNode,
        node_class: type | None = None,
        *,
        params: JSONObject | None = None,
        **settings: JSON,
    ) -> ScriptNode:
        """Add a node to this Python workflow.

        Args: node_id: Its id, as templates name it. node_type: Its type in the registry, or an object of its
            `python_class`, which has its params; for a class of the script's own, any other word. node_class:
            The class to instantiate, without arguments, instead of the registry's. params: Its params, which
            may hold templates. settings: Its other keys: `when`, `batch`, `retry`, `cache`, `verify`, `keep`.
        """
        given, made = dict(params or {}), cast("Any", node_type)
        if not isinstance(node_type, str):
            given |= {key: value for key, value in made.params.items() if not is_reserved(key)}
            made = made.entry.node
        raw = {"id": node_id, "type": made, "params": given, **settings}
        node = self._nodes[node_id] = ScriptNode(raw, node_class)
        return node

    def workflow(self, start: ScriptNode) -> dict[str, JSON]:
        """Return this Python workflow as JSON, with the edges connected so far."""
        ids = {id(node): node_id for node_id, node in self._nodes.items()}
        edges = [
            {"from": node_id, "to": ids[id(target)], "action": action, "when": when or None}
            for node_id, node in self._nodes.items()
            for (action, when), target in ((split_route(route), it) for route, it in node.successors.items())
        ]
        nodes = [dict(node.raw) for node in self._nodes.values()]
        return {**self._settings, "nodes": nodes, "edges": edges, "start_node": start.raw["id"]}

    def run(self, start: ScriptNode, **inputs: object) -> Outcome:
        """Run this Python workflow, from a node on, and return its outcome.

        Raises:
            PflowError: The workflow or its inputs are invalid; nothing has run.
        """
        with open_host() as host:
            return self._run(host, start, inputs)

    def _run(self, host: EmbeddedHost, start: ScriptNode, inputs: Mapping[str, object]) -> Outcome:
        return self._runner(host).run_compiled(self._compile(host, start, inputs), inputs)

    def main(self, start: ScriptNode, arguments: Sequence[str] | None = None) -> int:
        """Run this Python workflow as a program: inputs as `--name value` or `name=value`, JSON on stdout.

        `--help` shows the inputs, and `--json` prints one object as `pflow run --json` does.

        Returns:
            The exit code that `pflow run` would end with.
        """
        from pflow_mcp_plugin.host.cli.command_line_inputs import complete_inputs, parse_inputs
        from pflow_mcp_plugin.host.cli.output import Output, wants_json
        from pflow_mcp_plugin.host.running.run_report import outcome_report
        from pflow_mcp_plugin.host.standard_streams import Streams, to_json

        words = list(sys.argv[1:] if arguments is None else arguments)
        as_json = wants_json(words)
        with Streams(reserve=as_json) as streams:
            output = Output(streams, as_json=as_json)
            try:
                typed = parse_inputs(self._typed(words))
                with open_host() as host:
                    check = partial(self._compile, host, start)
                    inputs = complete_inputs(self._settings, typed, None, check, host.setting)
                    outcome = self._run(host, start, inputs)
            except PflowError as error:
                return output.fail(error)
            except KeyboardInterrupt:
                return output.fail(PflowError("interrupted", kind="interrupted"))
            except SystemExit as ended:  # after the help
                return int(ended.code or 0)
            text = to_json(dict(outcome.outputs)) if outcome.success else ""
            return output.report(attrs.evolve(outcome_report(outcome), text=text))

    def _typed(self, words: Sequence[str]) -> list[str]:
        from pflow_mcp_plugin.host.cli.command_line_inputs import declared_inputs

        parser = _Parser(
            description=_help(self._settings.get("description") or self.name), allow_abbrev=False
        )
        parser.add_argument("values", nargs="*", metavar="NAME=VALUE", help="an input by its name")
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        for flag in ("--locked", "--no-cache", "--trust-readonly"):
            parser.add_argument(flag, action="store_true", help="as of pflow run")
        parser.add_argument("--cache", metavar="TTL", help="as of pflow run: --cache, or --cache=15m")
        declared = declared_inputs(self._settings)
        for name, spec in declared.items():
            flag, about = f"--{name}", _help(spec.about)
            with suppress(argparse.ArgumentError):  # called like an option of the program: NAME=VALUE only
                parser.add_argument(flag, dest=flag, metavar="VALUE", help=about)
        alone = f"--cache={USUAL_TTL:g}"
        found = vars(parser.parse_intermixed_args([alone if it == "--cache" else it for it in words]))
        asked: dict[str, Any] = {it: found[it] for it in attrs.fields_dict(RunOptions) if found.get(it)}
        self.options = attrs.evolve(self.options, **asked)
        flags = ((name, found.get(f"--{name}")) for name in declared)
        return [*found["values"], *(f"{name}={value}" for name, value in flags if value is not None)]

    def _compile(self, host: EmbeddedHost, start: ScriptNode, inputs: Mapping[str, object]) -> Compiled:
        compiled = self._runner(host).compile(self.workflow(start), self.name, inputs)
        nodes = []
        for planned in compiled.nodes:
            own, ref = self._nodes[planned.ref.id].node_class, planned.ref
            if own is not None:
                entry = attrs.evolve(ref.entry, module=own.__module__, class_name=own.__name__)
                ref = attrs.evolve(ref, entry=entry)
            nodes.append(attrs.evolve(planned, ref=ref))
        return attrs.evolve(compiled, nodes=tuple(nodes))

    def _runner(self, host: EmbeddedHost) -> WorkflowRunner:
        types = _Types(host, self._nodes)
        return WorkflowRunner(host=host, types=types, plugins=host.plugins, options=self.options)


class _Types(ChangedEntries):
    """The registry, extended by a script's own node classes."""

    def __init__(self, host: EmbeddedHost, nodes: Mapping[str, ScriptNode]) -> None:
        super().__init__(host.registry, lambda entry: entry)
        self._own = {node.raw["type"]: node.node_class for node in nodes.values() if node.node_class}

    def find(self, node_type: str) -> Entry | None:
        """Return the registry's entry, or one with an open interface for a class of the script's own."""
        known = super().find(node_type)
        own = self._own.get(node_type)
        if known is not None or own is None:
            return known
        return Entry(
            node=node_type,
            class_name=own.__name__,
            module=own.__module__,
            interface=Interface(open=True, open_outputs=True),
        )

    def upgrade(self, node: JSONObject) -> JSONObject | None:
        """Return None: a node of a workflow written in Python has only one form."""
        return None


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise PflowError(message, suggestions=(f"See: python {self.prog} --help",), kind="usage")


def _help(text: object) -> str:
    return one_line(str(text)).replace("%", "%%")
