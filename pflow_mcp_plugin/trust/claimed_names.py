"""Names that collide with, or are made to look like, those of others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pflow_mcp_plugin import naming
from pflow_mcp_plugin.trust.look_alikes import shapes
from pflow_mcp_plugin.trust.name_index import Named, NameIndex, is_unmistakable
from pflow_mcp_plugin.trust.tool_findings import Finding, Rule

_NAMED = 5
_MOST_WORDS = 8


def claimed_names(server: str, tools: Iterable[str], names: NameIndex) -> Iterator[Finding]:
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
            yield _finding(named, "look-alike", f"looks like {alike}, but is a different name")
        other = _claimant(named, names) if named.tool else None
        if other:
            yield _finding(named, "name-claimed-twice", f"claims the name of {other}")
    both = [shared for tool in given if is_unmistakable(tool) and (shared := _shared(server, tool, names))]
    if both:
        more = f" and {len(both) - _NAMED} more" if len(both) > _NAMED else ""
        message = f"have the same names as tools of other servers: {', '.join(both[:_NAMED])}{more}"
        yield _finding(Named(server, ""), "name-claimed-twice", message, "tools")


def _shared(server: str, tool: str, names: NameIndex) -> str:
    """Return a name with the first other server that has it too; empty if there is none."""
    other = next((owner for owner in names.by_tool.get(tool, ()) if owner != server), None)
    return f"{tool} ({other})" if other else ""


def _look_alike(named: Named, names: NameIndex) -> Named | None:
    """Return something with another name that looks the same."""
    mine = named.tool or named.server
    for shape in sorted(shapes(mine)):
        for (is_tool, name), other in names.by_shape.get(shape, {}).items():
            if name != mine and is_tool == bool(named.tool):
                return other
    return None


def _claimant(named: Named, names: NameIndex) -> Named | None:
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


def _finding(named: Named, rule: Rule, message: str, where: str = "name") -> Finding:
    return Finding(
        server=named.server, tool=named.tool, rule=rule, severity="warning", message=message, where=where
    )
