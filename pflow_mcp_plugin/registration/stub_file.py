"""Writes the classes of all tools as a stub file, for editors and type checkers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from pflow_mcp_plugin.contract import Entry
from pflow_mcp_plugin.registration.class_signature import class_name, docstring, has_others, hint, named, rest

POCKETFLOW = Path(__file__).parent / "typings" / "pocketflow.pyi"
"""The stub file of pocketflow, which ships no types that type checkers read."""

_HEAD = '''\
"""Every registered tool as a class; written by `pflow mcp stubs`, as of the last sync."""

from collections.abc import Mapping, MutableMapping
from typing import Any, ClassVar, Literal

from pflow_mcp_plugin.calls import session as session
from pflow_mcp_plugin.contract import Entry
from pflow_mcp_plugin.execution.node import MCPNode

class ToolNode(MCPNode):
    entry: ClassVar[Entry]
    def __init__(self, **params: Any) -> None: ...
    def set_params(self, params: Mapping[str, Any]) -> None: ...
    def run(self, shared: MutableMapping[str, Any]) -> str: ...

def class_for(node_type: str) -> type[ToolNode]: ...
'''


def stub(entries: Iterable[Entry]) -> str:
    """Return the text of the stub file for `pflow_mcp_plugin.nodes`, with a class for each entry."""
    ordered = sorted(entries, key=lambda entry: entry.node)
    return "\n".join([_HEAD, *("\n".join(_class(entry)) for entry in ordered)])


def _class(entry: Entry) -> Iterator[str]:
    arguments = [f"{field.key}: {hint(field)} = ..." for field in entry.interface.params if named(field)]
    keyword_only = ["*", *arguments] if arguments else []
    others = [f"**{rest(entry)}: Any"] if has_others(entry) else []
    yield f"class {class_name(entry.node)}(ToolNode):"
    yield from _quoted(docstring(entry))
    yield f"    def __init__({', '.join(['self', *keyword_only, *others])}) -> None: ..."
    yield ""


def _quoted(text: str) -> Iterator[str]:
    """Return the lines of a docstring, with the text escaped."""
    # A lone surrogate, which a server's JSON may contain, could not be written as UTF-8.
    safe = text.encode("utf-8", "backslashreplace").decode().replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    first, *lines = safe.splitlines()
    yield f'    """{first}'
    yield from (f"    {line}".rstrip() for line in lines)
    yield '    """'
