"""Reads the file of a workflow."""

from __future__ import annotations

import re
from pathlib import Path

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.host.workflow.workflow_loader import load_workflow
from pflow_mcp_plugin.storage import NotRegular, read_regular, read_special

_DESCRIPTOR = re.compile(r"/dev/stdin|/(dev|proc/self)/fd/\d+")
"""What the user has opened for pflow: `pflow run /dev/stdin`, `pflow run <(command)`."""


def is_descriptor(word: str) -> bool:
    """Return whether the file of a workflow is one that the user has opened for pflow."""
    return _DESCRIPTOR.fullmatch(word) is not None


def read_workflow(path: Path) -> dict[str, JSON]:
    """Read the file of a workflow: JSON or YAML.

    Args:
        path: A regular file, or a descriptor such as `/dev/stdin`.

    Raises:
        PflowError: The file does not exist, cannot be read, or is not JSON or YAML.
    """
    return load_workflow(read_text(path), str(path))


def read_text(path: Path) -> str:
    """Read the text of a workflow file.

    Raises:
        PflowError: The file does not exist, or cannot be read.
    """
    try:
        content = read_special(path) if is_descriptor(str(path)) else read_regular(path)
        return content.decode()
    except FileNotFoundError as error:
        raise PflowError(
            f"No such file: {path}", suggestions=similar_files(path), kind="not_found"
        ) from error
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}"
        steps = (f"Pass it as standard input: /dev/stdin < {path}",) if isinstance(error, NotRegular) else ()
        raise PflowError(message, suggestions=steps, kind="not_found") from error
    except UnicodeDecodeError as error:
        message = f"{path} is not UTF-8 (byte {error.start})"
        raise PflowError(message, suggestions=("Save it as UTF-8",), kind="validation") from error


def similar_files(path: Path) -> tuple[str, ...]:
    """Return a suggestion that names the workflow file that is named most like a missing one."""
    from difflib import get_close_matches

    suffixes = (".json", ".yaml", ".yml")
    files = path.parent.iterdir() if path.parent.is_dir() else ()
    # The suffix is left out of the comparison: short names that share it would all be alike.
    names = {item.stem: item.name for item in files if item.suffix in suffixes}
    close = get_close_matches(path.stem, names, 1)
    return tuple(f"Did you mean {path.parent / names[stem]}?" for stem in close)
