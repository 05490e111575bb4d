"""The help of a node on the command line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from textwrap import wrap

from pflow_mcp_plugin.contract import Entry, Field
from pflow_mcp_plugin.host.direct.flag_names import flag_of, flag_with, is_list, is_switch, shown_flag
from pflow_mcp_plugin.host.direct.link_words import OPTIONS
from pflow_mcp_plugin.host.direct.node_flags import metavar
from pflow_mcp_plugin.host.workflow.coercion import type_name
from pflow_mcp_plugin.terminal.printable_text import one_line

_WIDTH = 100
_COLUMN = 30
"""The widest form of a flag that its description stands beside."""
_OPTIONS = (
    ("--save NAME", "Save the nodes as a workflow and run nothing; pflow run NAME runs it"),
    ("--print", "Print the nodes as a workflow and run nothing"),
    ("--input FLAG", "Make a flag an input of that workflow; may be repeated"),
    ("--description TEXT", "What that workflow is for"),
    ("--param NAME=VALUE", "Set a parameter by its exact name; @ and - mean nothing in VALUE"),
    ("--params JSON|@FILE|-", "Set parameters by their exact names, from a JSON object"),
    ("--allow-extra", "Let nodes take parameters that are not declared"),
    ("--json", "Print one JSON object"),
    ("-h, --help", "Show the flags of a node"),
)
_VALUES = """\
The value of --FLAG is the next word; --FLAG=VALUE and FLAG=VALUE work too. Write lists and objects
as JSON. @FILE is the content of a file, @@ a leading @, and - what is piped in. From the second node
on, ${key} in a value is what an earlier node wrote."""
_SAMPLES = {"str": "'some text'", "int": "10", "float": "0.5", "list": "'[...]'", "dict": "'{...}'"}


def chain_help(prog_name: str) -> str:
    """Return the help about nodes on the command line in general."""
    usage = f"Usage: {prog_name} NODE [--FLAG VALUE]... [then NODE [--FLAG VALUE]...]..."
    about = "Run nodes without a workflow file; each takes the result of the one before it."
    lines = [usage, "", f"  {about}", "", *(f"  {line}" for line in _VALUES.splitlines())]
    return "\n".join([*lines, "", "Options:", *_table(_OPTIONS), "", "See: pflow registry list"])


def node_help(entry: Entry, prog_name: str) -> str:
    """Return the help of a node: its flags with types and defaults, what is piped in, and what comes out."""
    interface = entry.interface
    needed = [field for field in interface.params if field.needs_value]
    call = f"{prog_name} {entry.node}"
    lines = [" ".join([f"Usage: {call}", *map(_form, needed), "[--FLAG VALUE]... [then NODE ...]"]), ""]
    lines += [f"  {line}" for text in entry.description.splitlines() for line in wrap(text, _WIDTH)]
    lines += ["", "Flags:", *_table((_form(field), _about(field)) for field in interface.params)]
    if interface.open:
        lines += _table([("--OTHER VALUE", "Any other parameter")])
    piped = _piped(entry)
    lines += ["", piped] if piped else []
    lines += ["", "Outputs:", *_table((it.key, _output(entry, it)) for it in interface.outputs)]
    lines += ["", "Options of pflow:", *_table(_OPTIONS)]
    example = " ".join([call, *(flag_with(field, _sample(field)) for field in needed)])
    return "\n".join(map(one_line, [*lines, "", f"Example: {example}"]))


def _table(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    known = [(one_line(form), about) for form, about in rows] or [("none", "")]
    width = max((len(form) for form, _ in known if len(form) <= _COLUMN), default=_COLUMN)
    for form, about in known:
        first, *rest = wrap(about, max(_WIDTH - width - 4, 40)) or [""]
        if len(form) > width:
            yield f"  {form}"
            rest = [first, *rest] if first else rest
        else:
            yield f"  {form:<{width}}  {first}".rstrip()
        yield from (f"  {'':<{width}}  {line}" for line in rest)


def _form(field: Field) -> str:
    if is_switch(field) and flag_of(field) not in OPTIONS:
        return f"{flag_of(field)}, --no-{flag_of(field)[2:]}"
    return flag_with(field, metavar(field))


def _about(field: Field) -> str:
    notes = ["required"] if field.needs_value else []
    notes += ["may be repeated"] if is_list(field) else []
    if isinstance(field.schema, Mapping) and field.has_default:
        notes.append(f"default {json.dumps(field.schema['default'], ensure_ascii=False)}")
    return f"{field.description} [{', '.join(notes)}]".strip() if notes else field.description


def _piped(entry: Entry) -> str:
    """Return a sentence about what is piped into a node; empty if nothing can be."""
    interface = entry.interface
    field = next((it for it in interface.params if it.key == interface.piped_key(())), None)
    if field is not None:
        return f"Piped input, or the result of the node before, becomes {shown_flag(field)}."
    texts = [it for it in interface.params if it.required and not {"str", "any"}.isdisjoint(it.types)]
    if len(texts) > 1:
        return "Piped input, or the result of the node before, becomes the required text that no flag sets."
    return ""


def _output(entry: Entry, field: Field) -> str:
    mark = ", the result" if field.key == entry.interface.result_key else ""
    return f"({field.type}{mark}) {field.description}"


def _sample(field: Field) -> str:
    first = next(iter(field.choices), None)
    if isinstance(first, str) and first.isalnum():
        return first
    return next((_SAMPLES[kind] for kind in map(type_name, field.types) if kind in _SAMPLES), "'some text'")
