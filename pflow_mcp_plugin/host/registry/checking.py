"""What is wrong with entries of the registry, found before a workflow uses them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from pflow_mcp_plugin.contract import Entry, Field, NodeRef, PflowError, Problem
from pflow_mcp_plugin.host.app import EmbeddedHost
from pflow_mcp_plugin.host.registry.lookup import Overwritten
from pflow_mcp_plugin.host.registry.outdated import Uninstalled
from pflow_mcp_plugin.host.workflow.coercion import is_type


def check_nodes(host: EmbeddedHost, names: Iterable[str] = ()) -> tuple[int, list[Problem]]:
    """Check node types: that their class can be loaded, and that their interface makes sense.

    Args:
        host: Whose registry is checked.
        names: The node types to check; every one when left out.

    Returns:
        How many there are, and every problem; also what the registry had to leave out, which elsewhere
        is a warning. An entry that another one overwrites is none the worse for it, and stays one.
    """
    with host.gathering() as told:
        wanted = list(dict.fromkeys(names))
        found = [(name, host.registry.find(name)) for name in wanted]
        missing = [host.registry.missing(name) for name, entry in found if entry is None]
        entries = [entry for _, entry in found if entry] if wanted else list(host.registry.entries())
        problems = [problem for entry in entries for problem in _problems(entry)]
    others = [problem for problem in told if not isinstance(problem, Uninstalled)]  # these are in `problems`
    return len(entries), [*map(_judged, others), *missing, *problems]


def _judged(problem: Problem) -> Problem:
    return problem if isinstance(problem, Overwritten) else attrs.evolve(problem, severity="error")


def _problems(entry: Entry) -> Iterator[Problem]:
    from pflow_mcp_plugin.host.running.flow import make_node

    try:
        node = make_node(NodeRef(id=entry.node, type=entry.node, params={}, entry=entry))
    except PflowError as error:
        yield _problem(entry, str(error), next(iter(error.suggestions), ""))
    else:
        lacking = [name for name in ("set_params", "run") if not callable(getattr(node, name, None))]
        if lacking:
            where = f"{entry.module}:{entry.class_name}"
            yield _problem(entry, f"{entry.node}: {where} is no node, it has no {' and no '.join(lacking)}")
    for part in ("params", "outputs"):
        yield from _of_fields(entry, part, getattr(entry.interface, part))


def _of_fields(entry: Entry, part: str, fields: Iterable[Field]) -> Iterator[Problem]:
    seen = set()
    for field in fields:
        if field.key in seen:
            yield _problem(entry, f"{entry.node}: {part} has {field.key} twice")
        seen.add(field.key)
        if not is_type(field.type):
            yield _problem(entry, f"{entry.node}: {part} {field.key} has a type that is none: {field.type!r}")


def _problem(entry: Entry, message: str, suggestion: str = "") -> Problem:
    return Problem(message=message, suggestion=suggestion, kind="config", source=entry.source)
