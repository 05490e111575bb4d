"""Values of flags that are elsewhere: `--body @notes.md`, `--params -`."""

from __future__ import annotations

import json
import re
from pathlib import Path

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.standard_streams import input_text
from pflow_mcp_plugin.storage import read_regular, read_special

_DESCRIPTOR = re.compile(r"/dev/stdin|/(dev|proc/self)/fd/\d+")


def file_text(path: Path, word: str) -> str:
    """Return the text of the file that a flag names.

    Args:
        path: The file, or a descriptor such as `/dev/fd/63` of `@<(command)`.
        word: The flag's value as typed, for messages.

    Raises:
        PflowError: The file cannot be read, or is not UTF-8.
    """
    step = f"For the text {word} itself, write @{word}"
    path = path.expanduser() if str(path).startswith("~") else path
    try:
        content = read_special(path) if _DESCRIPTOR.fullmatch(str(path)) else read_regular(path)
        return content.decode()
    except FileNotFoundError as error:
        raise PflowError(f"no such file: {path}", suggestions=(step,), kind="usage") from error
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror or error}"
        raise PflowError(message, suggestions=(step,), kind="usage") from error
    except (UnicodeDecodeError, ValueError) as error:
        raise PflowError(f"{path} is not UTF-8 text", suggestions=(step,), kind="usage") from error


def params_object(text: str) -> dict[str, object]:
    """Return the JSON object that `--params` names: as it stands, in a file (`@FILE`), or piped in (`-`).

    Raises:
        PflowError: It cannot be read, or is not a JSON object.
    """
    if text == "-":
        text = input_text()
    elif text.startswith("@"):
        text = file_text(Path(text[1:]), text)
    step = 'Write an object, such as {"title": "x"}'
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PflowError(f"not JSON: {error}", suggestions=(step,), kind="usage") from error
    if not isinstance(value, dict):
        raise PflowError("not a JSON object", suggestions=(step,), kind="usage")
    return value
