"""Standard output and error: any text, for people without control characters, and closed pipes."""

from __future__ import annotations

import os
import re
import sys
from typing import IO

_STEERING = (
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)


def prepare_streams() -> None:
    """Let standard output and error take any text, whatever the locale."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure:
            reconfigure(encoding="utf-8", errors="backslashreplace")


def plain(text: str) -> str:
    """Return a text without what would move a terminal's cursor, colour it, or turn its letters round."""
    return text if text.isprintable() else re.sub(_STEERING, "", text)


def write(stream: IO[str] | None, text: str) -> int:
    """Write a text and a newline; return 1 if it could not be written, 0 also if nobody reads on."""
    if not text or stream is None:  # None: the process was started with it closed
        return 0
    if stream is sys.stderr:  # for people; what nodes and files say is quoted there
        text = plain(text)
    try:
        stream.write(text if text.endswith("\n") else text + "\n")
        stream.flush()
    except OSError as error:
        return lost(stream, error)
    return 0


def lost(stream: IO[str], error: OSError) -> int:
    """Write no more to a stream and say why, if anybody was reading; return the exit code."""
    silence(stream)
    if isinstance(error, BrokenPipeError):
        return 0
    if stream is sys.stdout:
        write(sys.stderr, f"Error: the output could not be written: {error.strerror}")
    return 1


def is_of_output(error: OSError) -> bool:
    """Return whether it was standard output that could not be written, and no file of a command's."""
    if sys.stdout is None:
        return False
    try:
        sys.stdout.flush()  # what could not be written is still there
    except OSError:
        return True
    return bool(getattr(sys.stdout, "write_through", False)) and error.filename is None


def silence(stream: IO[str]) -> None:
    """Send what a stream still holds nowhere, so that the interpreter's last flush does not fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, stream.fileno())
    finally:
        os.close(nowhere)
