"""Standard output and error: any encoding, control characters left out, closed pipes handled."""

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
    """Let standard output and error accept any string, whatever the locale."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure:
            reconfigure(encoding="utf-8", errors="backslashreplace")


def plain(text: str) -> str:
    """Return a string for a stream, without terminal and other control characters or direction overrides."""
    return text if text.isprintable() else re.sub(_STEERING, "", text)


def write(stream: IO[str] | None, text: str) -> int:
    """Write a line to a stream; return the exit code: 1 if that failed, 0 also if the reader is gone."""
    if not text or stream is None:  # None: the process was started with the stream closed
        return 0
    if stream is sys.stderr:  # it is for people, and messages quote untrusted output and files
        text = plain(text)
    try:
        stream.write(text if text.endswith("\n") else text + "\n")
        stream.flush()
    except OSError as error:
        return lost(stream, error)
    return 0


def lost(stream: IO[str], error: OSError) -> int:
    """Stop writing to a failed stream, report the failure unless the reader is gone; return the exit code."""
    silence(stream)
    if isinstance(error, BrokenPipeError):
        return 0
    if stream is sys.stdout:
        write(sys.stderr, f"Error: the output could not be written: {error.strerror}")
    return 1


def is_of_output(error: OSError) -> bool:
    """Return whether an error comes from writing standard output, not from a file of the command."""
    if sys.stdout is None:
        return False
    try:
        sys.stdout.flush()  # unwritten data is still in the buffer
    except OSError:
        return True
    # With `write_through` nothing is ever buffered; an error about a file has its name.
    return bool(getattr(sys.stdout, "write_through", False)) and error.filename is None


def silence(stream: IO[str]) -> None:
    """Redirect a stream to the null device, so that the interpreter's last flush does not fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, stream.fileno())
    finally:
        os.close(nowhere)
