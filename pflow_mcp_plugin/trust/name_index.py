"""An index of the names of all servers, tools and nodes, to find names that look the same.

The table of look-alikes holds the letters that look like ASCII letters in common fonts, from the scripts that
names are forged with; names of tools should be ASCII to begin with (protocol 2025-11-25, "Tool Names"). What
compatibility characters stand for (full-width and mathematical letters, ligatures) is left to NFKC. The whole
table of Unicode (UTS 39) has thousands of lines for scripts that no ASCII name can be forged with.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import NamedTuple

import attrs

from pflow_mcp_plugin import naming
from pflow_mcp_plugin.terminal.looks import hidden_places

_PARTS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z0-9]+")


class Named(NamedTuple):
    """A server, a tool of one, or a node of the host (which has no server), by its name in the index."""

    server: str
    tool: str

    def __str__(self) -> str:
        if not self.server:
            return f"the node {self.tool}"
        return f"{self.tool} of server {self.server}" if self.tool else f"server {self.server}"


@attrs.frozen
class NameIndex:
    """The names of all servers, tools and nodes, indexed to find what claims or resembles another's name."""

    tools: Mapping[str, frozenset[str]]  # their names by server
    by_tool: Mapping[str, tuple[str, ...]]  # the servers that have a tool of a name
    by_node: Mapping[str, tuple[Named, ...]]  # the tools that claim a node type
    # What has a shape, keyed by whether it is a tool or node and by its name.
    by_shape: Mapping[str, Mapping[tuple[bool, str], Named]]


def index_names(tools: Mapping[str, Collection[str]], nodes: Collection[str] = ()) -> NameIndex:
    """Return an index to find names that look the same, of every server's tools and the host's nodes."""
    by_tool: dict[str, list[str]] = defaultdict(list)
    by_node: dict[str, list[Named]] = defaultdict(list)
    by_shape: dict[str, dict[tuple[bool, str], Named]] = defaultdict(dict)
    servers = [Named(server, "") for server in tools]
    every = [Named(server, tool) for server, names in tools.items() for tool in dict.fromkeys(names)]
    for named in (*servers, *every, *(Named("", node) for node in nodes)):
        name = named.tool or named.server
        # The name of a node is also compared in the spelling of tools.
        for spelling in (name,) if named.server else (name, name.replace("-", "_")):
            for shape in shapes(spelling):
                by_shape[shape].setdefault((bool(named.tool), spelling), named)
        if named.server and named.tool:
            by_tool[named.tool].append(named.server)
            by_node[naming.node_name(*named)].append(named)
    return NameIndex(
        {server: frozenset(names) for server, names in tools.items()},
        {name: tuple(found) for name, found in by_tool.items()},
        {name: tuple(found) for name, found in by_node.items()},
        by_shape,
    )


def is_unmistakable(name: str) -> bool:
    """Whether a word of a text can only be a name to look up in the index: `create_issue`, `listPages`."""
    parts = _PARTS.findall(name)
    return len(name) >= 6 and len(parts) > 1 and not name.isupper()


_FORGED = str.maketrans(
    {
        # ruff: noqa: RUF001 - the letters are meant
        # Cyrillic
        **dict(zip("АВЕКМНОРСТХУІЈЅԌԚԜ", "ABEKMHOPCTXYIJSGQW", strict=True)),
        **dict(zip("авекмнорстхуіјѕԁԛԝһӏгпѵ", "abekmhopctxyijsdqwhlrnv", strict=True)),
        # Greek
        **dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "ABEZHIKMNOPTYX", strict=True)),
        **dict(zip("αβγεηικνορτυχω", "aByenikvoptuxw", strict=True)),
        # Armenian, Cherokee, and letters of Latin
        **dict(zip("օոսհցզԼᎪᏴᏟᎬᎻᏞᎷᏢᏒᏚᎢᎳᏃıɑɡɩʟǀ", "onuhgqLABCEHLMPRSTWZiagiLl", strict=True)),
        # Hyphens and dashes
        **dict.fromkeys("‐‑‒–—−", "-"),
    }
)
_SAME = (("0", "o"), ("O", "o"), ("I", "l"), ("|", "l"), ("rn", "m"), ("vv", "w"))


def plain_form(name: str) -> str:
    """Return a tool's name with letters of other scripts replaced by the ASCII letters they look like."""
    if name.isascii() and name.isprintable():
        return name
    unseen = set(hidden_places(name))
    seen = "".join(char for place, char in enumerate(name) if place not in unseen)
    apart = unicodedata.normalize("NFKD", seen)
    letters = "".join(char for char in apart if not unicodedata.combining(char))
    return letters.translate(_FORGED)


def shapes(name: str) -> set[str]:
    """Return the shapes of a tool's name: two names that share one look alike (`l` and `1`, `rn` and `m`)."""
    # The digit 1 counts as `l` and as `i`, 0 as `o`, capital I as `l`, `rn` as `m`.
    shape = plain_form(name)
    for one, other in _SAME:
        shape = shape.replace(one, other)
    return {shape.replace("1", "l"), shape.replace("1", "i")}


def readings(name: str) -> set[str]:
    """Return the ordinary names that a look-alike may be read as; empty for an ordinary name."""
    form = plain_form(name)
    read = {form.replace("1", "l"), form.replace("1", "i"), form.replace("0", "o"), form.replace("I", "l")}
    return {each for each in (form, *read) if each != name}
