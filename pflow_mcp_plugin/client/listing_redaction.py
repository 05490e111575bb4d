"""Redacts what a server says about itself and its tools, before anyone stores or prints it.

A server may repeat its own config there, on purpose or in an example of a command.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from pflow_mcp_plugin.exchange import Launch, Listing
from pflow_mcp_plugin.redaction import Redactor
from pflow_mcp_plugin.types import ServerInfo, Tool

_SHORTEST = 8
"""Characters; the shorter values of a config, such as `info` or `read`, are words that any tool may use."""
_NAMED = 5
_CONTAINS = "contains a secret of its config, which is redacted"
_IN_NAME = "its name contains a secret of the server's config"
_IN_ARGUMENT = "the name of an argument contains a secret of the server's config"


def redactor_of(launch: Launch) -> Redactor:
    """Return a redactor for what a server says about itself."""
    return Redactor(secret for secret in launch.redactor.known if len(secret) >= _SHORTEST)


def redacted_info(info: ServerInfo, redactor: Redactor) -> tuple[ServerInfo, tuple[str, ...]]:
    """Return a server's description of itself, redacted, and a note if that changed it."""
    shown = attrs.evolve(
        info,
        name=redactor.piece(info.name),
        version=redactor.piece(info.version),
        instructions=redactor.piece(info.instructions),
        capabilities=redactor.value(info.capabilities),
    )
    note = f"what it says about itself {_CONTAINS}"
    return shown, () if shown == info else (note,)


def redacted_listing(listing: Listing, redactor: Redactor) -> Listing:
    """Return a list of tools, redacted; notes name the tools concerned.

    A tool is skipped if its name, or that of an argument, contains a secret: it could not be called
    without that name.
    """
    tools, skipped, changed = [], [], []
    for tool in listing.tools:
        shown = _redacted_tool(tool, redactor)
        fault = _fault(tool, redactor)
        if fault:
            skipped.append((shown.name, fault))
            continue
        tools.append(shown)
        if shown != tool:
            changed.append(tool.name)
    return attrs.evolve(
        listing,
        tools=tuple(tools),
        skipped=(*((redactor.piece(name), redactor.piece(why)) for name, why in listing.skipped), *skipped),
        notes=(*map(redactor.piece, listing.notes), *_notes(changed)),
    )


def _redacted_tool(tool: Tool, redactor: Redactor) -> Tool:
    return attrs.evolve(
        tool,
        name=redactor.piece(tool.name),
        title=redactor.piece(tool.title),
        description=redactor.piece(tool.description),
        input_schema=redactor.value(tool.input_schema),
        output_schema=redactor.value(tool.output_schema),
        annotations=redactor.value(tool.annotations),
        meta=redactor.value(tool.meta),
    )


def _fault(tool: Tool, redactor: Redactor) -> str:
    if redactor.piece(tool.name) != tool.name:
        return _IN_NAME
    return _IN_ARGUMENT if any(redactor.piece(name) != name for name in _arguments(tool.input_schema)) else ""


def _arguments(schema: Mapping[str, Any]) -> Iterator[str]:
    properties = schema.get("properties")
    yield from properties if isinstance(properties, Mapping) else ()


def _notes(changed: list[str]) -> Iterator[str]:
    if changed:
        rest = f" and {len(changed) - _NAMED} more" if len(changed) > _NAMED else ""
        yield f"what it says about {', '.join(changed[:_NAMED])}{rest} {_CONTAINS}"
