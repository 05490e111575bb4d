"""Checks of registry entries, before a workflow uses them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from pflow_mcp_plugin.contract import Entry, Field, Host, NodeRef, PflowError, Problem
from pflow_mcp_plugin.host.registry.node_registry import NodeRegistry, Overwritten
from pflow_mcp_plugin.host.registry.saved_entries import Uninstalled
from pflow_mcp_plugin.host.workflow.coercion import is_type
from pflow_mcp_plugin.host.workflow.compilation import load_node


def check_nodes(
    host: Host, registry: NodeRegistry, names: Iterable[str] = (), source: str = ""
) -> tuple[int, list[Problem]]:
    """Check registry entries: that their class can be loaded, and that their interface makes sense.

    Args:
        host: The handle that nodes get.
        registry: The registry to check.
        names: The node types to check; all of them by default.
        source: Without names, check the node types of this source only.

    Raises:
        PflowError: No node type is of this source.

    Returns:
        The number of entries checked, and every problem.
    """
    wanted = list(dict.fromkeys(names))
    found = [(name, registry.find(name)) for name in wanted]
    missing = [registry.missing(name) for name, entry in found if entry is None]
    entries = [entry for _, entry in found if entry] if wanted else _of_source(registry, source)
    return len(entries), [*missing, *(problem for entry in entries for problem in _problems(entry, host))]


def _of_source(registry: NodeRegistry, source: str) -> list[Entry]:
    entries = list(registry.entries())
    of_source = [entry for entry in entries if source in ("", entry.source)]
    if not of_source:
        known = ", ".join(sorted({entry.source for entry in entries}))
        raise PflowError(
            f"No node type is of the source {source}", suggestions=(f"Sources: {known}",), kind="not_found"
        )
    return of_source


def as_errors(reported: Iterable[Problem]) -> Iterator[Problem]:
    """Yield the registry's problems with entries for their check, as errors where an entry was left out.

    An entry that another one overwrites still works, so it stays a warning; one whose module is not
    installed is found by `check_nodes`.
    """
    for problem in reported:
        if isinstance(problem, Overwritten):
            yield problem
        elif not isinstance(problem, Uninstalled):
            yield attrs.evolve(problem, severity="error")


def _problems(entry: Entry, host: Host) -> Iterator[Problem]:
    try:
        node = load_node(NodeRef(id=entry.node, type=entry.node, entry=entry, host=host))
    except PflowError as error:
        yield _problem(entry, str(error), next(iter(error.suggestions), ""))
    else:
        lacking = [name for name in ("set_params", "run") if not callable(getattr(node, name, None))]
        if lacking:
            where = f"{entry.module}:{entry.class_name}"
            message = f"{entry.node}: {where} is not a node, it has no {' and no '.join(lacking)}"
            yield _problem(entry, message)
    for part in ("params", "outputs"):
        yield from _of_fields(entry, part, getattr(entry.interface, part))


def _of_fields(entry: Entry, part: str, fields: Iterable[Field]) -> Iterator[Problem]:
    seen = set()
    for field in fields:
        if field.key in seen:
            yield _problem(entry, f"{entry.node}: {part} has {field.key} twice")
        seen.add(field.key)
        if not is_type(field.type):
            yield _problem(entry, f"{entry.node}: {part} {field.key} has an invalid type: {field.type!r}")


def _problem(entry: Entry, message: str, suggestion: str = "") -> Problem:
    return Problem(message=message, suggestion=suggestion, kind="config", source=entry.source)
