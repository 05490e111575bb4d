"""The chain of workflows that led to a call of another pflow, so that a workflow cannot call itself.

A workflow may call a tool of a pflow that serves workflows, and that pflow may call another one. Each passes
on the identifiers of the workflows above, in the `_meta` of `tools/call`. An identifier is a hash: it reveals
neither names nor folders to a server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from pflow_mcp_plugin.contract import Host, PflowError, Run

META_KEY = "io.github.pflow/workflows"
"""The key of the chain in the `_meta` of a `tools/call`: a list of identifiers, outermost first."""

SERVER_NAME = "pflow"
"""The name of pflow's own server in `serverInfo`; the chain is sent to no other server."""

DEEPEST = 16
"""The most workflows that a chain may have."""

_IDENTIFIER = re.compile(r"[0-9a-f]{32}")
_MACHINE_ID = Path("/etc/machine-id")


def identifier(host: Host, name: str) -> str:
    """Return the identifier of a workflow in a chain of calls: a hash of machine, library and name.

    A workflow that is not in the library is named by its resolved file, or by another unique name.
    """
    import platform
    from hashlib import sha256

    # Containers of one image share the identifier of the installation, but not the machine's name.
    try:
        installed = _MACHINE_ID.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:  # this system does not have it
        installed = ""
    parts = (installed, platform.node(), str(host.paths.data.resolve()), name)
    return sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def below(run: Run) -> tuple[str, ...]:
    """Return the chain of workflows that the calls of a run pass on: those above it, and its own."""
    name, library = run.workflow.name, run.host.library
    is_saved = library is not None and name in library.names()
    # Another call cannot name a workflow that is not saved, so its identifier is unique to the run.
    return (*run.origin.above, identifier(run.host, name if is_saved else f"{name}\0{run.run_id}"))


def received(meta: Mapping[str, object] | None) -> tuple[str, ...]:
    """Return the chain of workflows in the `_meta` of a call, empty if there is none."""
    chain = (meta or {}).get(META_KEY, [])
    if not isinstance(chain, list) or not all(
        isinstance(item, str) and _IDENTIFIER.fullmatch(item) for item in chain
    ):
        raise PflowError(f"{META_KEY} must be a list of identifiers of workflows", kind="validation")
    if len(chain) >= DEEPEST:
        message = f"{len(chain)} workflows call each other already, and at most {DEEPEST} may"
        hint = "Check whether a workflow calls itself through the servers that its nodes use"
        raise PflowError(message, suggestions=(hint,), details={"depth": len(chain)}, kind="validation")
    return tuple(chain)


def require_no_circle(host: Host, above: Sequence[str], name: str) -> None:
    """Refuse a saved workflow that is in the chain above itself, as it calls itself, directly or not."""
    own = identifier(host, name)
    if own not in above:
        return
    chain = [*above[above.index(own) :], own]
    names = host.library.names() if host.library is not None else ()
    known = {identifier(host, name): name for name in names}
    circle = [known.get(each, "a workflow of another pflow") for each in chain]
    raise PflowError(
        f"Workflow {name} calls itself: {' → '.join(circle)}",
        suggestions=(f"Remove the node that leads back to {name}",),
        details={"workflow": name, "circle": circle},
        kind="validation",
    )
