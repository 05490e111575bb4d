"""A workflow as a Python program that connects its nodes in pocketflow's notation."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Mapping
from itertools import chain, count
from pprint import pformat

from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.host.workflow.compilation import Compiled, PlannedNode
from pflow_mcp_plugin.host.workflow.constructs import CONSTRUCT_KEYS
from pflow_mcp_plugin.host.workflow.workflow_document import normalise

_TAKEN = frozenset({"script", "Script", *dir(builtins)})


def python_script(compiled: Compiled, workflow: JSONObject) -> str:
    """Return the source code of a Python program for a workflow in normal form."""
    names = _variable_names([planned.ref.id for planned in compiled.nodes])
    raws = {node.id: node.raw for node in compiled.document.nodes}
    imports = {"pflow_mcp_plugin.script": {"Script"}}
    for planned in compiled.nodes:
        if name := _class(planned):
            imports.setdefault(planned.ref.entry.python_class.partition(":")[0], set()).add(name)
    keys = ("description", "inputs", "outputs", "mappings")
    settings = [_argument(key, workflow[key]) for key in keys if workflow.get(key)]
    if workflow.get("enable_namespacing") is False:
        settings.append("enable_namespacing=False")
    if workflow.get("template_resolution_mode") == "permissive":
        settings.append("template_resolution_mode='permissive'")
    edges = [
        f"{names[source] if action == 'default' else f'{names[source]} - {action!r}'} >> {names[target]}"
        for source, routes in compiled.graph.successors.items()
        for action, target in routes.items()
    ]
    about = workflow.get("description")
    title = f"{compiled.name}: {about}" if isinstance(about, str) and about else compiled.name
    one_line = " ".join(title.replace("\\", "/").replace('"', "'").split())
    # Python rejects NUL, and terminal codes do not belong in source code.
    plain = "".join(filter(str.isprintable, one_line))
    parts = [
        f'"""{plain}\n\nRun it with the workflow\'s inputs: python THIS_FILE --name value ...\n"""',
        "\n".join(sorted(f"from {it} import {', '.join(sorted(found))}" for it, found in imports.items())),
        _call("script = Script", [repr(compiled.name), *settings]),
        "\n".join(_node(planned, names, raws[planned.ref.id]) for planned in compiled.nodes),
        "\n".join(edges),
        f'if __name__ == "__main__":\n    raise SystemExit(script.main({names[compiled.graph.start]}))',
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _variable_names(ids: list[str]) -> dict[str, str]:
    names: dict[str, str] = {}
    for node_id in ids:
        plain = re.sub(r"\W", "_", node_id, flags=re.ASCII).lower() or "node"
        wanted = f"node_{plain}" if plain[0].isdecimal() or keyword.iskeyword(plain) else plain
        taken = {*names.values(), *_TAKEN}
        numbered = chain([wanted], (f"{wanted}_{number}" for number in count(2)))
        names[node_id] = next(it for it in numbered if it not in taken)
    return names


def _node(planned: PlannedNode, names: Mapping[str, str], raw: JSONObject) -> str:
    ref = planned.ref
    if name := _class(planned):
        made = _call(name, [_argument(key, value) for key, value in ref.params.items()])
        given = [repr(ref.id), made.replace("\n", "\n    ")]
    else:
        given = [repr(ref.id), repr(raw["type"] if planned.sub else ref.type)]
        params = {"workflow": whole(planned.sub), **ref.params} if planned.sub else ref.params
        given += [_argument("params", params)] if params else []
    given += [_argument(key, raw[key]) for key in CONSTRUCT_KEYS if raw.get(key) is not None]
    return _call(f"{names[ref.id]} = script.node", given)


def _class(planned: PlannedNode) -> str:
    """Return the class that an exported program uses for a node; empty if it cannot take all the params."""
    known = {field.key for field in planned.ref.entry.interface.params}
    names = planned.ref.params.keys()
    if planned.sub or not all(
        key in known and key.isidentifier() and not keyword.iskeyword(key) for key in names
    ):
        return ""
    return planned.ref.entry.python_class.partition(":")[2]


def whole(plan: Compiled) -> JSONObject:
    """Return the workflow that an exported node runs, with those that it runs in turn written in it."""
    raws = {node.id: node.raw for node in plan.document.nodes}
    nodes = []
    for planned in plan.nodes:
        raw = dict(raws[planned.id])
        if planned.sub:
            raw["params"] = {**planned.ref.params, "workflow": whole(planned.sub)}
        nodes.append(raw)
    return {**normalise(plan.source), "nodes": nodes}


def _call(function: str, arguments: list[str]) -> str:
    one_line = f"{function}({', '.join(arguments)})"
    if len(one_line) <= 100 and "\n" not in one_line:
        return one_line
    lines = "".join(f"    {argument},\n" for argument in arguments)
    return f"{function}(\n{lines})"


def _argument(name: str, value: JSON) -> str:
    indented = "\n" + " " * len(f"    {name}=")
    return f"{name}=" + pformat(value, width=90, sort_dicts=False).replace("\n", indented)
