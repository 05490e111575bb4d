"""The names of servers, tools and nodes: how one is made from the other.

Rule: `mcp-{server}-{tool}`, the tool lower-cased, each run outside `[a-z0-9]` one `-`, ends
stripped. Tools that would share a name each get a suffix derived from their server and raw name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping

PREFIX = "mcp-"
_SERVER = re.compile(r"[a-z0-9-]+")
_SUFFIXES = (6, 12, 64)  # hex digits of a sha256; up to all of them
_SUFFIXED = r"(.+)-(?:[0-9a-f]{6}|[0-9a-f]{12}|[0-9a-f]{64})"


def is_server_name(name: str) -> bool:
    """Whether this can be the name of a server: `[a-z0-9-]+`."""
    return _SERVER.fullmatch(name) is not None


def server_name(text: str) -> str:
    """Return a name for a server, made from a text: lower case, other characters as `-`."""
    return slug(text) or "server-" + _digest(text)


def slug(text: str) -> str:
    """Return a text as part of a name: lower case, each run outside `[a-z0-9]` one `-`, ends stripped."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def node_name(server: str, tool: str) -> str:
    """Return the name of a tool's node, before name collisions are resolved."""
    return f"{PREFIX}{server}-{tool_part(tool)}"


def tool_part(tool: str) -> str:
    """Return the tool's part of a node's name, before name collisions are resolved."""
    return slug(tool) or "tool-" + _digest(tool)


def node_names(
    tools: Iterable[tuple[str, str]],
    renamed: Mapping[tuple[str, str], str] | None = None,
    unapproved: Container[tuple[str, str]] = (),
) -> dict[tuple[str, str], str]:
    """Return the names of the nodes of all tools, all different.

    Tools are `(server, raw tool name)` pairs of all servers; `renamed` has replacements for raw names. Tools
    that would share a name each get a suffix: the first hex digits of sha256 over server, NUL and tool.
    `unapproved` tools take no name away from others.
    """
    pairs = list(dict.fromkeys(tools))
    words = renamed or {}
    plain = {pair: node_name(pair[0], words.get(pair, pair[1])) for pair in pairs}
    names = dict(plain)
    for digits in _SUFFIXES:
        count = Counter(names.values())
        if len(count) == len(pairs):
            break
        approved = Counter(name for pair, name in names.items() if pair not in unapproved)
        for pair in pairs:
            if (count if pair in unapproved else approved)[names[pair]] > 1:
                names[pair] = f"{plain[pair]}-{_suffix(pair, digits)}"
    return names


def rivals(node_type: str, claiming: Callable[[str], Iterable[tuple[str, str]]]) -> set[tuple[str, str]]:
    """Return the tools whose names may collide with `node_type`, and those that their own names depend on.

    `node_names` returns the same names for this small set as it does for all tools. `claiming` returns the
    `(server, raw tool name)` pairs that have a node type before collisions are resolved.
    """
    plains: dict[tuple[str, str], str] = {}
    asked: set[str] = set()
    waiting = {node_type}
    while waiting:
        for name in waiting:
            # `x-1a2b3c` may be the name of a tool, or that of a tool `x` with its suffix.
            suffixed = re.fullmatch(_SUFFIXED, name)
            for plain in (name, *(suffixed.groups() if suffixed else ())):
                plains.update(dict.fromkeys(claiming(plain), plain))
        asked |= waiting
        waiting = set(plains.values()) - asked
        if len(plains) > 1:
            suffixes = ((plain, pair, digits) for pair, plain in plains.items() for digits in _SUFFIXES)
            waiting |= {f"{plain}-{_suffix(pair, digits)}" for plain, pair, digits in suffixes} - asked
    return set(plains)


def parse_node_type(node_type: str, servers: Iterable[str]) -> tuple[str, str] | None:
    """Return the server and the tool in a node's name; of several configured servers, the longest wins."""
    rest = node_type.removeprefix(PREFIX)
    if rest == node_type:
        return None
    fitting = (server for server in servers if rest.startswith(server + "-"))
    server = max(fitting, key=len, default=None)
    return None if server is None else (server, rest[len(server) + 1 :])


def _suffix(pair: tuple[str, str], digits: int) -> str:
    return _digest(chr(0).join(pair), digits)


def _digest(text: str, digits: int = 6) -> str:
    # Imported late: OpenSSL is slow to load, and few lookups need a digest.
    from hashlib import sha256

    # JSON may hold lone surrogates, and a tool's name comes as JSON.
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:digits]


def class_name(node_type: str) -> str:
    """Return the class name made from a node's name: `McpGithubSearchCodeNode` for `mcp-github-search-code`.

    No two node types share one: a part that begins with a digit is preceded by `_`.
    """
    parts = (part.capitalize() if part[:1].isalpha() else f"_{part}" for part in node_type.split("-") if part)
    return "".join(parts) + "Node"
