"""Names that collide with, or are made to look like, those of others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pflow_mcp_plugin import naming
from pflow_mcp_plugin.trust.findings import Finding, Rule
from pflow_mcp_plugin.trust.known_names import KnownNames, Named, is_unmistakable
from pflow_mcp_plugin.trust.look_alikes import shapes

_NAMED = 5
_MOST_WORDS = 8


def claimed_names(server: str, tools: Iterable[str], names: KnownNames) -> Iterator[Finding]:
    """Yield a warning for each name that is another's too, or looks like another's.

    Args:
        server: The server's name.
        tools: The names of its tools.
        names: All names.
    """
    given = list(dict.fromkeys(tools))
    for named in (Named(server, ""), *(Named(server, tool) for tool in given)):
        alike = _look_alike(named, names)
        if alike:
            yield _finding(named, "look-alike", f"looks like {alike}, and is another name")
        other = _claimant(named, names) if named.tool else None
        if other:
            yield _finding(named, "name-claimed-twice", f"claims the name of {other}")
    both = [shared for tool in given if is_unmistakable(tool) and (shared := _shared(server, tool, names))]
    if both:
        more = f" and {len(both) - _NAMED} more" if len(both) > _NAMED else ""
        message = f"has tools of the same names as other servers: {', '.join(both[:_NAMED])}{more}"
        yield _finding(Named(server, ""), "name-claimed-twice", message)


def _shared(server: str, tool: str, names: KnownNames) -> str:
    """Return a name with the first other server that has it too; empty if there is none."""
    other = next((owner for owner in names.by_tool.get(tool, ()) if owner != server), None)
    return f"{tool} ({other})" if other else ""


def _look_alike(named: Named, names: KnownNames) -> Named | None:
    """Return something with another name that looks the same."""
    mine = named.tool or named.server
    for shape in sorted(shapes(mine)):
        for (is_tool, name), other in names.by_shape.get(shape, {}).items():
            if name != mine and is_tool == bool(named.tool):
                return other
    return None


def _claimant(named: Named, names: KnownNames) -> Named | None:
    """Return a tool whose node would have the same type, or one of another server that the name spells out.

    The latter is `github_create_issue` of any server but `github`, if that has it.
    """
    slug = naming.slug(named.tool)
    words = slug.split("-")
    servers = ("-".join(words[:count]) for count in range(1, min(len(words), _MOST_WORDS)))
    spelled = [f"{naming.PREFIX}{slug}"]
    spelled += [naming.node_name(server, slug) for server in servers if server in names.tools]
    for other in names.by_node.get(naming.node_name(*named), ()):
        if other != named:
            return other
    candidates = (other for node in spelled for other in names.by_node.get(node, ()))
    return next((other for other in candidates if other.server != named.server), None)


def _finding(named: Named, rule: Rule, message: str) -> Finding:
    return Finding(
        server=named.server, tool=named.tool, rule=rule, severity="warning", message=message, where="name"
    )
