"""The help of a node on the command line."""

from __future__ import annotations

from collections.abc import Iterator

from pflow_mcp_plugin.contract import Entry, Field
from pflow_mcp_plugin.host.direct.flag_names import flag_of, is_list, is_switch
from pflow_mcp_plugin.host.direct.node_flags import metavar


def chain_help(prog_name: str) -> str:
    """Return the help about nodes on the command line in general."""
    return f"""Usage: {prog_name} NODE [--FLAG VALUE]... [then NODE [--FLAG VALUE]...]...

  Run node types without a workflow file; each gets the result of the one before it.

Options:
{_OPTIONS}"""


_OPTIONS = """\
  --save NAME         Keep it as a workflow instead of running it: pflow run NAME
  --print             Print it as a workflow instead of running it
  --input FLAG        Make this flag an input of that workflow; may be repeated
  --description TEXT  What that workflow is for
  --param NAME=VALUE  Set a parameter whose flag is taken by one of these options
  --json              Print one JSON object
  --help              Show this, or the flags of a node"""


def node_help(entry: Entry, prog_name: str) -> str:
    """Return the help of a node: its flags with types and defaults, what is piped in, and what comes out."""
    needed = [field for field in entry.interface.params if field.required and not field.has_default]
    words = " ".join([prog_name, entry.node, *(f"{flag_of(it)} {metavar(it)}" for it in needed)])
    lines = [f"Usage: {words} [--FLAG VALUE]... [then NODE ...]", ""]
    lines += [f"  {line}" for line in entry.description.splitlines()]
    lines += ["", "Flags:", *_flags(entry)] if entry.interface.params else ["", "It takes no flags."]
    piped = entry.interface.piped_key(())
    if piped:
        lines += ["", f"What is piped in is --{piped.replace('_', '-')}."]
    lines += ["", "Outputs:", *_outputs(entry)] if entry.interface.outputs else []
    return "\n".join([*lines, "", "Options of pflow:", _OPTIONS])


def _flags(entry: Entry) -> Iterator[str]:
    rows = [(_form(field), _about(field)) for field in entry.interface.params]
    width = min(max((len(form) for form, _ in rows), default=0), 32)
    for form, about in rows:
        yield f"  {form:<{width}}  {about}".rstrip()


def _form(field: Field) -> str:
    if is_switch(field):
        return f"{flag_of(field)}, --no-{flag_of(field)[2:]}"
    return f"{flag_of(field)} {metavar(field)}{'...' if is_list(field) else ''}"


def _about(field: Field) -> str:
    notes = []
    if field.required and not field.has_default:
        notes.append("required")
    if field.has_default and isinstance(field.schema, dict):
        notes.append(f"default {field.schema['default']!r}")
    note = f" [{', '.join(notes)}]" if notes else ""
    return " ".join(field.description.split()) + note


def _outputs(entry: Entry) -> Iterator[str]:
    for field in entry.interface.outputs:
        mark = " (the result)" if field.key == entry.interface.result_key else ""
        about = " ".join(field.description.split())
        yield f"  {field.key}: {field.type}{mark}{'  ' + about if about else ''}"
