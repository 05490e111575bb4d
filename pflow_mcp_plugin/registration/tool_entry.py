"""The registry entry of a tool, or the sketch of one, built from what was synced.

What an entry shows is what was approved of the tool, since models read it; uses are checked against the tool
as it is now.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

import attrs

from pflow_mcp_plugin.contract import Entry, Field, Interface, Recipe, Sketch
from pflow_mcp_plugin.contract.json_types import FRIENDLY_NAMES, JSON, JSONObject
from pflow_mcp_plugin.naming import class_name, node_name
from pflow_mcp_plugin.schemas.schema_reader import (
    ANY,
    CONTENT_BLOCKS,
    Declaration,
    SchemaDocument,
    declaration,
    table_of,
    unwrapped,
)
from pflow_mcp_plugin.terminal.looks import printable
from pflow_mcp_plugin.trust import tool_approval
from pflow_mcp_plugin.trust.tool_claims import claims_to_read, effects, idempotency_argument, purity
from pflow_mcp_plugin.types import Server, Tool, ToolRecord, plain_version

SOURCE = "mcp"


def entry(
    record: ToolRecord,
    server: Server,
    variables: Mapping[str, str] | None = None,
    *,
    lasting: bool = True,
) -> Entry:
    """Return the registry entry of a tool; `lasting` is false for a server that is lent for one call."""
    tool, key = record.tool, idempotency_argument(record, server)
    shown = interface(tool) if record.found is tool else changed_interface(record)
    return Entry(
        node=record.node,
        class_name="MCPNode",
        module="pflow_mcp_plugin.execution.node",
        file_path="virtual://mcp",
        type="mcp_wrapper",
        source=SOURCE,
        description=_tool_description(tool),
        interface=_without_need(shown, key) if key else shown,
        purity=purity(record, server),
        claimed_purity="flow_safe" if claims_to_read(record) else "",
        effects=effects(record, server),
        labels={"server": record.server, "tool": tool.name},
        family=record.server,
        local_name=tool.name,
        fingerprint=tool_approval.fingerprint(record, server),
        python_class=f"pflow_mcp_plugin.nodes:{class_name(record.node)}",
        lasting=lasting,
        idempotency_argument=key,
        verify=_recipe(record, server),
        withheld=tool_approval.withheld(record, server, variables),
        extra={
            "mcp_config": {
                "server_id": record.server,
                "tool_name": tool.name,
                "transport": server.transport,
                "version": plain_version(record.info.version),
                "manifest_hash": record.manifest_hash,
            },
        },
    )


def _recipe(record: ToolRecord, server: Server) -> Recipe | None:
    table = server.verify.get(record.found.name)
    if table is None:
        return None
    node = node_name(server.name, server.rename.get(table["tool"], table["tool"]))
    params = dict(table.get("arguments", {}))
    return Recipe(node=node, happened=table["happened"], params=params, result=table.get("result", ""))


def tool_config(entry: Entry) -> Mapping[str, str]:
    """Return what the registry entry of a tool says about it: `server_id`, `tool_name` and more."""
    return cast("Mapping[str, str]", entry.extra["mcp_config"])  # strings, see `entry`


def sketch(record: ToolRecord) -> Sketch:
    """Return the sketch of a tool's registry entry, for lists and searches."""
    tool = record.tool
    return Sketch(
        node=record.node,
        description=_tool_description(tool),
        params=described(tool),
        labels={"server": record.server, "tool": tool.name},
        family=record.server,
        local_name=tool.name,
        source=SOURCE,
    )


def _tool_description(tool: Tool) -> str:
    return printable((tool.description or tool.title).strip())


_BESIDE = Field(
    key=CONTENT_BLOCKS,
    type="list",
    description="Texts and files beside the result; absent if there are none",
)


def interface(tool: Tool) -> Interface:
    """Return the interface in a tool's registry entry: params, outputs, actions. Never raises."""
    document, declared = SchemaDocument(tool.input_schema), declaration(tool.input_schema)
    params = tuple(
        _field(document, declared, key, required=key in declared.required) for key in declared.properties
    )
    return Interface(
        params=params,
        inputs=tuple(field.key for field in params),
        outputs=tuple(_outputs(tool.output_schema)),
        # Those that `MCPNode` may return.
        actions=("default", "error", "rate_limited", "auth_failed", "resource_missing", "timeout"),
        open=declared.open,
        open_outputs=_open_outputs(tool.output_schema),
    )


def _without_need(interface: Interface, key: str) -> Interface:

    def free(fields: tuple[Field, ...]) -> tuple[Field, ...]:
        return tuple(attrs.evolve(it, required=False) if it.key == key else it for it in fields)

    return attrs.evolve(interface, params=free(interface.params), hidden=free(interface.hidden))


def changed_interface(record: ToolRecord) -> Interface:
    """Build the interface for the entry of a tool that differs from its approved version, or has none.

    It names and describes what was approved, with the current types. What is new is hidden: it may be used,
    but is not shown. Which values an argument may have is for `check_use` to judge, by the current schema.
    """
    now, then = interface(record.found), interface(record.tool)
    types = {field.key: field for field in now.params}
    # A parameter has its current type; one that has become required is for `check_use` to report.
    params: dict[str, Field] = {}
    for field in then.params:
        of_now = types.get(field.key, attrs.evolve(field, required=False))
        is_required = field.required and of_now.required
        params[field.key] = attrs.evolve(field, type=of_now.type, required=is_required)
    new = (
        Field(key=key, type=field.type, required=field.required, schema=_outline(field.schema))
        for key, field in types.items()
        if key not in params
    )
    return attrs.evolve(
        then,
        params=tuple(params.values()),
        hidden=(*(attrs.evolve(field, schema=_outline(field.schema)) for field in params.values()), *new),
        open=now.open,
        open_outputs=True,
    )


def _outline(schema: JSON) -> JSONObject:
    """Return what a tool's entry says of a param for its use: whether it has a default, the type of items."""
    stated = table_of(schema)
    kind = table_of(stated.get("items")).get("type")
    outline: dict[str, JSON] = {"default": None} if "default" in stated else {}
    if isinstance(kind, str) and kind in FRIENDLY_NAMES:
        outline["items"] = {"type": kind}
    return outline


def described(tool: Tool) -> dict[str, str]:
    """Return the params in a tool's entry with their descriptions: all that a search needs of it."""
    plain = table_of(table_of(tool.input_schema).get("properties"))
    properties = plain or declaration(tool.input_schema).properties
    return {key: _description(raw) for key, raw in properties.items()}


def _outputs(schema: JSON) -> Iterator[Field]:
    if schema is None:
        yield Field(key="result", type=ANY, description="The answer of the tool")
        yield Field(key="error", type="str | None")
        return
    document = SchemaDocument(schema)
    whole = unwrapped(document, schema)
    declared = declaration(whole, document)
    for key in declared.properties:
        if key not in ("result", "error"):  # the node itself writes these
            yield _field(document, declared, key)
    if CONTENT_BLOCKS not in declared.properties and not _open_outputs(schema):
        yield _BESIDE  # where others are allowed, it need not be named
    described = _stated(document.self_contained(whole))
    kind = document.friendly(whole)
    yield Field(key="result", type=kind, description="The answer of the tool", schema=described)
    hidden = "Why the call failed; what the tool itself calls error is in result.error"
    yield Field(key="error", type="str | None", description=hidden if "error" in declared.properties else "")


def _open_outputs(schema: JSON) -> bool | None:
    document = SchemaDocument(schema)
    whole = unwrapped(document, schema)
    if schema is None or (whole is not schema and declaration(schema).more):
        return True
    kinds = document.friendly(whole).split(" | ")
    return declaration(whole, document).more if "dict" in kinds or ANY in kinds else False


def _field(document: SchemaDocument, declared: Declaration, key: str, *, required: bool = False) -> Field:
    raw = declared.properties[key]
    kind = ANY if key in declared.uncertain else document.accepted(raw)
    return Field(
        key=key,
        type=f"{kind} | None" if kind != ANY and document.is_unset_by_null(raw) else kind,
        required=required,
        description=_description(raw) or _description(document.resolve(raw)),
        schema=_stated(document.self_contained(raw)),
    )


def _stated(schema: JSON) -> JSONObject | bool | None:
    return schema if isinstance(schema, dict | bool) else None


def _description(schema: JSON) -> str:
    text = table_of(schema).get("description")
    return text.strip() if isinstance(text, str) else ""
