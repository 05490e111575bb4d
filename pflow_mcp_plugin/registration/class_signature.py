"""The node class of a tool as Python code: its signature and docstring, and the stub file of all classes."""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path

from pflow_mcp_plugin import naming
from pflow_mcp_plugin.contract import Entry, Field
from pflow_mcp_plugin.naming import class_name
from pflow_mcp_plugin.registration.tool_entry import tool_config
from pflow_mcp_plugin.schemas.schema_reader import list_of, table_of
from pflow_mcp_plugin.terminal.looks import one_line, printable

_CLASS = re.compile(r"((?:_?[A-Z0-9][a-z0-9]*)+)Node")
_PART = re.compile(r"_([0-9][a-z0-9]*)|([A-Z][a-z0-9]*)")
_HINTS = {"list": "list[Any]", "dict": "dict[str, Any]", "any": "Any"}


def node_type(name: str) -> str | None:
    """Return the node type for the name of a tool's class, as in the stub file; None if there is none.

    The `Node` at its end may be left out.
    """
    name = name if name.endswith("Node") else f"{name}Node"
    matched = _CLASS.fullmatch(name)
    parts = [digits or word for digits, word in _PART.findall(matched[1])] if matched else []
    found = "-".join(part.lower() for part in parts)
    # Several spellings lead to one node type; only the one that `class_name` returns is its class.
    fits = found.startswith(naming.PREFIX) and class_name(found) == name
    return found if fits else None


def named(field: Field) -> bool:
    """Whether the signature of a node class can name this param."""
    key = field.key
    # Python normalises identifiers (PEP 3131): a keyword argument would arrive under another name.
    spelt = key.isidentifier() and unicodedata.normalize("NFKC", key) == key
    return spelt and not keyword.iskeyword(key) and key != "self"


def has_others(entry: Entry) -> bool:
    """Whether a node class also takes params that its signature does not name."""
    return entry.interface.open or not all(named(field) for field in entry.interface.params)


def rest(entry: Entry) -> str:
    """Return the name of the `**` parameter in a node class's signature; no param has this name."""
    keys = {field.key for field in entry.interface.params}
    name = "others"
    while name in keys:
        name += "_"
    return name


def hint(field: Field) -> str:
    """Return the type hint of a param in the signature of a node class."""
    choices = list_of(table_of(field.schema).get("enum"))
    if choices and all(it is None or isinstance(it, str | bool | int) for it in choices):
        return f"Literal[{', '.join(map(ascii, choices))}]"
    return " | ".join(dict.fromkeys(_HINTS.get(name, name) for name in field.types))


def docstring(entry: Entry) -> str:
    """Return the docstring of a tool's class in Python and its stub: description, interface, and tool."""
    config = tool_config(entry)
    version = f" v{config['version']}" if config["version"] else ""
    lines = [
        entry.description or f"The tool {config['tool_name']}.",
        "",
        "Interface:",
        *(one_line(f"- {line}") for line in _interface(entry)),
        "",
        one_line(f"MCP Source: {config['server_id']}/{config['tool_name']}{version}"),
    ]
    return printable("\n".join(lines))


def _interface(entry: Entry) -> Iterator[str]:
    fields = (("Reads", entry.interface.params), ("Writes", entry.interface.outputs))
    for what, field in ((what, field) for what, found in fields for field in found):
        about = "".join(f" - {text}" for text in [" ".join(field.description.split())] if text)
        optional = " (optional)" if what == "Reads" and not field.required else ""
        yield f'{what}: shared["{field.key}"]: {field.type}{about}{optional}'
    params = [
        f"{field.key} (default {table_of(field.schema).get('default')!r})" if field.has_default else field.key
        for field in entry.interface.params
    ]
    yield f"Params: {', '.join(params) or 'none'}"
    yield f"Actions: {', '.join(entry.interface.actions)}"


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
    name = class_name(entry.node)
    yield f"class {name}(ToolNode):"
    # A lone surrogate, which a server's JSON may contain, could not be written as UTF-8.
    safe = docstring(entry).encode("utf-8", "backslashreplace").decode()
    first, *lines = safe.replace("\\", "\\\\").replace('"""', '\\"\\"\\"').splitlines()
    yield f'    """{first}'
    yield from (f"    {line}".rstrip() for line in lines)
    yield '    """'
    yield f"    def __init__({', '.join(['self', *keyword_only, *others])}) -> None: ..."
    yield ""
    yield f"{name.removesuffix('Node')} = {name}"
    yield ""
