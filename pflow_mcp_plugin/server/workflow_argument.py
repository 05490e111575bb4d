"""The workflow that a client gives a tool as an argument: a saved name, a path, text or an object."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from pflow_mcp_plugin.contract import Host, PflowError
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.server.served_tool import ServedRequest, runner_of, shown
from pflow_mcp_plugin.storage import NotRegular, read_regular

MOST_BYTES = 8 << 20
"""Bytes of the largest workflow."""
MOST_VALUES = 200_000
"""Values that a workflow may consist of."""
MOST_NODES = 10_000
DEEPEST = 100
_TEXT = re.compile(r"[{\[]|[\"']?\w+[\"']?\s*:(\s|$)|.*\n")
"""How JSON and YAML begin, even on a single line, unlike names and paths, which have no second line."""
_UNNAMED = "(unnamed)"
"""No saved workflow can have this name."""


@attrs.frozen
class GivenWorkflow:
    """A workflow that a client gave, or one that is a tool, with its name for messages; saved or not."""

    workflow: JSONObject
    name: str
    saved: bool = False


def given_workflow(request: ServedRequest, given: str | JSONObject) -> GivenWorkflow:
    """Return the workflow that a client gives as an argument, unless it is too large."""
    library = request.host.library
    if not isinstance(given, str):
        found = GivenWorkflow(given, _UNNAMED)
    elif _TEXT.match(given.strip("\ufeff \t\r\n")):
        found = attrs.evolve(_parsed(request, given, "the given workflow"), name=_UNNAMED)
    elif library is not None and given in library.names():
        found = GivenWorkflow(library.get(given), given, saved=True)
    elif set(given) & set("/\\.\0"):  # it looks like a path
        content = read_confined(request.root, given, MOST_BYTES)
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            message = f"{shown(given)} is not UTF-8 (byte {error.start})"
            raise PflowError(message, suggestions=("Save it as UTF-8",), kind="validation") from None
        found = _parsed(request, text, given.replace("\\", "/").rpartition("/")[2])
    else:
        hints = ["See workflow_list", "Pass a path that ends in .json or .yaml, or the workflow itself"]
        if library is not None:
            try:
                library.get(given)
            except PflowError as error:  # it names the nearest
                hints = [*(hint for hint in error.suggestions if hint.startswith("Did you mean")), *hints]
        message = f"No workflow is saved as {shown(given) or repr(given)}"
        raise PflowError(message, kind="not_found", suggestions=tuple(hints))
    _check_size(found)
    return found


def _parsed(request: ServedRequest, content: str, name: str) -> GivenWorkflow:
    if len(content) > MOST_BYTES:
        raise _too_large(f"{MOST_BYTES:,} characters")
    return GivenWorkflow(runner_of(request.host).read(content, name), name)


def _check_size(found: GivenWorkflow) -> None:
    left: list[tuple[Any, int]] = [(found.workflow, 1)]
    count = 0
    while left:
        value, depth = left.pop()
        count += 1
        if depth > DEEPEST:
            raise _too_large(f"{DEEPEST} levels of nesting")
        if count > MOST_VALUES:
            raise _too_large(f"{MOST_VALUES:,} values")
        inside = value.values() if isinstance(value, Mapping) else value
        if isinstance(value, Mapping | list | tuple):
            left += ((item, depth + 1) for item in inside)
    nodes = found.workflow.get("nodes")
    if isinstance(nodes, list) and len(nodes) > MOST_NODES:
        raise _too_large(f"{MOST_NODES:,} nodes")


def _too_large(limit: str) -> PflowError:
    return PflowError(
        f"The workflow is too large: it has more than {limit}",
        kind="validation",
        suggestions=("Read large data in a node, or pass it as an input",),
    )


_LONGEST = 4_096


def read_confined(root: Path | None, name: str, most: int) -> bytes:
    """Return a file that a client gives as an argument: in the folder open to clients, and small enough.

    The path is relative to the folder, or absolute within it; without a folder, no file may be read.
    """
    path = confined(root, name)
    try:
        return read_regular(path, most)
    except FileNotFoundError:
        step = "Pass a path inside the folder that pflow serves, or a name in workflow_list"
        raise PflowError(f"No such file: {shown(name)}", kind="not_found", suggestions=(step,)) from None
    except (NotRegular, IsADirectoryError) as error:
        raise _refused(f"{shown(name)} is not a regular file: {error.strerror}") from None
    except OSError as error:
        raise PflowError(f"{shown(name)} cannot be read: {error.strerror}", kind="validation") from None


def confined(root: Path | None, name: str) -> Path:
    """Return the real path that a client names; refuse one outside the folder that is open to clients.

    Symbolic links are followed first, so one that leads out is refused, and what is opened later is not a
    link.
    """
    if root is None:
        raise PflowError(
            "Files cannot be read here: the server does not run on the client's machine",
            kind="validation",
            suggestions=(
                "Pass the workflow itself, as an object, or as JSON or YAML text",
                "Pass the name of a saved workflow",
            ),
        )
    if len(name) > _LONGEST or not name.isprintable():
        raise _refused(f"{shown(name)!r} is not a path")
    base = os.path.realpath(root)
    real = Path(os.path.realpath(Path(base) / name))
    if not real.is_relative_to(base):
        raise _refused(f"{shown(name)} is outside the folder that pflow serves")
    return real


def _refused(message: str) -> PflowError:
    return PflowError(
        message,
        kind="validation",
        suggestions=("Pass a path inside the folder, the workflow itself, or the name of a saved workflow",),
    )


def found_workflow(host: Host, word: str | Path) -> tuple[JSONObject, bool]:
    """Return the workflow that an argument names by its saved name or path, and whether it is saved."""
    if host.library is not None and word in host.library.names():
        return host.library.get(str(word)), True
    path = Path(word)
    if not path.is_file():
        message = f"{path} is neither the name of a saved workflow nor a file"
        raise PflowError(message, kind="not_found", suggestions=("See: pflow workflow list",))
    return runner_of(host).read_file(path), False
