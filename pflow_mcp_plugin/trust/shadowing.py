"""Texts that speak of another server's tools, and so may steer how these are used."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from pflow_mcp_plugin.trust.name_index import Named, NameIndex, is_unmistakable
from pflow_mcp_plugin.trust.tool_findings import Finding
from pflow_mcp_plugin.trust.tool_texts import Text

_WORD = re.compile(r"(?<![A-Za-z0-9])(?:[A-Za-z0-9]+(?:[-_./:]+[A-Za-z0-9]+)+|[a-z0-9]+[A-Z][A-Za-z0-9]*)")
"""A name of several parts, a node type, or a path such as `github/create_issue`."""
_QUOTED = re.compile(r"[`'\"\u201c\u2018]([A-Za-z0-9]{3,40})[`'\"\u201d\u2019]")
_SERVER_AND = re.compile(r"([A-Za-z0-9-]+)(?:[./:]+|__)(\w[\w-]*)")
_NEAR = 60
"""Characters within which the name of a server stands beside that of its tool."""


def shadowing(server: str, tool: str, texts: Iterable[Text], names: NameIndex) -> Iterator[Finding]:
    """Yield a warning for each text that names a tool of another server in a way that means it.

    A name means a tool if it has several parts (`create_issue`), is a node type, stands after its server's
    name (`github.search`), or is quoted beside it. Names that this server has too mean its own.

    Args:
        server: The server's name.
        tool: The tool's name; empty for the instructions of the server.
        texts: Its texts.
        names: What other servers have.
    """
    own = names.tools.get(server, frozenset())
    for where, text, kind in texts:
        if kind != "prose":
            continue
        other = next(
            (it for it in _mentioned(text, names) if it.server != server and it.tool not in own), None
        )
        if other:
            yield Finding(
                server=server,
                tool=tool,
                rule="shadowing",
                severity="warning",
                message=f"names {other}",
                where=where,
            )


def _mentioned(text: str, names: NameIndex) -> Iterator[Named]:
    for found in _WORD.finditer(text):
        word = found.group()
        if is_unmistakable(word):
            yield from (Named(owner, word) for owner in names.by_tool.get(word, ()))
        yield from names.by_node.get(word.lower(), ())
        prefixed = _SERVER_AND.fullmatch(word)
        if prefixed and prefixed[2] in names.tools.get(prefixed[1].lower(), ()):
            yield Named(prefixed[1].lower(), prefixed[2])
    for found in _QUOTED.finditer(text):
        for owner in names.by_tool.get(found[1], ()):
            near = text[max(found.start() - _NEAR, 0) : found.end() + _NEAR].lower()
            if re.search(rf"(?<![\w-]){re.escape(owner)}(?![\w-])", near):
                yield Named(owner, found[1])
