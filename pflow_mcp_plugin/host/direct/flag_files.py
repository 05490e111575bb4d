"""Files whose content is the value of a flag: `--body @notes.md`."""

from __future__ import annotations

import re
from pathlib import Path

from pflow_mcp_plugin.contract import PflowError
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
