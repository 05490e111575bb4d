"""Adapts server tables that other clients wrote: names, transports, URLs.

Importers of a client's own file pass its tables through `fitted` too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import count

import attrs

from pflow_mcp_plugin import naming
from pflow_mcp_plugin.config import server_schema
from pflow_mcp_plugin.config.field_checks import advice
from pflow_mcp_plugin.contract import Problem
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject

URLS = ("serverUrl", "httpUrl")
"""Names that other clients use for `url`; the name implies the transport."""

_TYPES = {
    **{name.replace("-", ""): transport for name, transport in server_schema.SPELLINGS.items()},
    "httpstream": "http",
}


@attrs.frozen(kw_only=True)
class Fitted:
    """Server tables adapted from another client's dialect, with a note about each change.

    Attributes:
        tables: The tables by name.
        notes: A warning for each change.
    """

    tables: dict[str, JSON] = attrs.field(repr=False)
    notes: tuple[Problem, ...] = ()


def fitted(tables: JSONObject) -> Fitted:
    """Adapt another client's server tables: valid names, and the fields of our config file."""
    names = fitted_names(tables)
    servers = [fitted_table(names[given], table) for given, table in tables.items()]
    renamed = [
        advice(server_schema.server_path(name), f"The server {given!r} is renamed to {name}")
        for given, name in names.items()
        if name != given
    ]
    return Fitted(
        tables={name: table for server in servers for name, table in server.tables.items()},
        notes=(*renamed, *(note for server in servers for note in server.notes)),
    )


def fitted_table(name: str, table: JSON) -> Fitted:
    """Adapt one server table in another client's dialect, its transport and URL; its name is kept."""
    if not isinstance(table, Mapping):
        return Fitted(tables={name: table})
    notes: list[Problem] = []
    is_older = "transport" in table and "type" not in table
    named = {"type" if is_older and key == "transport" else key: value for key, value in table.items()}
    made = _with_url(name, _with_type(name, named, notes), notes)
    return Fitted(tables={name: made}, notes=tuple(notes))


def fitted_names(given: Iterable[str]) -> dict[str, str]:
    """Map the server names in another client's dialect to valid names of ours, all different."""
    # Valid names first: they are kept, and a renamed server must not take one.
    names = {name: name for name in given if naming.is_server_name(name)}
    for name in given:
        if name not in names:
            near = naming.server_name(name)
            free = (near if number == 1 else f"{near}-{number}" for number in count(1))
            names[name] = next(candidate for candidate in free if candidate not in names.values())
    return names


def _with_type(name: str, table: dict[str, JSON], notes: list[Problem]) -> dict[str, JSON]:
    given = table.get("type")
    if not isinstance(given, str) or given in server_schema.SPELLINGS:
        return table
    transport = _TYPES.get(re.sub(r"[^a-z]", "", given.lower()))
    if transport is None:
        return table
    notes.append(
        advice(f"{server_schema.server_path(name)}.type", f"The type {given} is read as {transport}")
    )
    return {**table, "type": transport}


def _with_url(name: str, table: dict[str, JSON], notes: list[Problem]) -> dict[str, JSON]:
    key = next((key for key in URLS if isinstance(table.get(key), str)), "")
    if not key or "url" in table:
        return table
    url = str(table[key])
    is_stream = key == "serverUrl" and url.partition("?")[0].rstrip("/").endswith("/sse")
    transport = table.get("type", "sse" if is_stream else "http")
    message = f"{key} is read as url, with the type {transport}"
    notes.append(advice(f"{server_schema.server_path(name)}.url", message))
    rest = {other: value for other, value in table.items() if other not in (key, "type")}
    return {"type": transport, "url": url, **rest}
