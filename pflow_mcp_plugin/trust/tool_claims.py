"""What a tool claims in its annotations, and how far it is believed: may it run twice, does it send data?

A hint counts as the specification says where a server states none: the tool is then destructive and open to
the world (2025-11-25, `ToolAnnotations`). `purity` and `is_safe_to_repeat` believe a claim only if the user's
config trusts it. For data flows no trust is needed: that check is about what strangers write, not about a
server that lies, and what a remote server receives and returns does not depend on its claims.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal

from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.schemas.schema_reader import declaration
from pflow_mcp_plugin.types import Server, ToolRecord

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract.entries import Effect

_HARMLESS = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
"""The value of each hint that makes a tool harmless; without it, the tool counts as the opposite."""
HINTS = tuple(_HARMLESS)
_STOPPING = ("readOnlyHint", "destructiveHint", "openWorldHint")


def purity(record: ToolRecord, server: Server) -> Literal["impure", "flow_safe"]:
    """Return `flow_safe` if a tool's claim to be read-only is believed, as the user trusts its server."""
    return "flow_safe" if claims_to_read(record) and server.trust_readonly else "impure"


def claims_to_read(record: ToolRecord) -> bool:
    """Whether a tool claims that it only reads, which may not be true."""
    return _claims(record, "readOnlyHint")


def is_safe_to_repeat(record: ToolRecord, server: Server) -> bool:
    """Whether a call of unknown outcome may be repeated: the claim to read or be idempotent is trusted."""
    idempotent = _claims(record, "idempotentHint") and server.trust_idempotent
    return idempotent or purity(record, server) == "flow_safe"


def idempotency_argument(record: ToolRecord, server: Server) -> str:
    """Return the argument that lets a tool run twice, as its server recognizes the call; empty if none."""
    name = server.idempotency_argument.get(record.found.name, "")
    return name if name and name in declaration(record.found.input_schema).properties else ""


def effects(record: ToolRecord, server: Server) -> tuple[Effect, ...]:
    """Return what a tool does to data, as it claims.

    Its output is untrusted and it sends data unless it says that it is closed to the world, and always if its
    server is reached over the network. It is destructive unless it says that it only reads or adds.
    """
    is_open = server.is_remote or not _claims(record, "openWorldHint")
    found: list[Effect] = ["untrusted_output"] if is_open else []
    if not (claims_to_read(record) or _claims(record, "destructiveHint")):
        found.append("destructive")
    if is_open:
        found.append("sends_data")
    return tuple(found)


def worse_hints(old: JSONObject, new: JSONObject) -> Iterator[str]:
    """Yield the hints by which a tool now claims, in its annotations, to be more dangerous than before."""
    return (it for it in changed_claims(old, new) if it in _STOPPING and _is_harmless(old, it))


def changed_claims(old: JSONObject, new: JSONObject) -> Iterator[str]:
    """Yield the hints by which a tool claims something else than before; one that is absent counts too."""
    for hint in HINTS:
        # A tool that only reads destroys nothing, whatever else it says.
        is_idle = hint == "destructiveHint" and _is_harmless(new, "readOnlyHint")
        if _is_harmless(old, hint) != _is_harmless(new, hint) and not is_idle:
            yield hint


def _claims(record: ToolRecord, hint: str) -> bool:
    return all(_is_harmless(tool.annotations, hint) for tool in (record.tool, record.found))


def _is_harmless(annotations: Mapping[str, object], hint: str) -> bool:
    return annotations.get(hint) is _HARMLESS[hint]
