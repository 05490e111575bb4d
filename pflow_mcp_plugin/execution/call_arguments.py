"""Gathers the arguments of a call from a node's params and the shared store."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from pflow_mcp_plugin.contract.validators import is_reserved
from pflow_mcp_plugin.schemas.schema_properties import Declaration


def gather(
    declared: Declaration | None,
    params: Mapping[str, Any],
    shared: Mapping[str, Any],
    *,
    extra: bool = False,
    approved: Container[str] = (),
) -> dict[str, Any]:
    """Gather the arguments of a call: params first, then the shared store under the same names.

    Only what the tool declares is taken from the store; a None there counts as missing
    unless the tool accepts null. Params are sent unchanged, None included. Params that the tool does
    not declare are sent only if it accepts others. `__special__` params are never sent.

    Args:
        declared: What the tool declares, None if that is unknown: then every param is sent.
        params: The node's params.
        shared: The root of the shared store.
        extra: Whether params are sent that the tool does not declare.
        approved: The arguments that the tool had when it was approved: one that is gone is not left out
            silently.
    """
    given = {key: value for key, value in params.items() if not is_reserved(key)}
    if declared is None:
        return given
    takes_any = declared.open or extra
    arguments = {
        key: value
        for key, value in given.items()
        if takes_any or key in declared.properties or key in approved
    }
    for key, schema in declared.properties.items():
        if key not in given and key in shared:
            value = shared[key]
            if value is not None or declared.document.takes_null(schema):
                arguments[key] = value
    return arguments
