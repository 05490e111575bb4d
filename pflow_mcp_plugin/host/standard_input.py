"""Standard input, read to its end."""

from __future__ import annotations

import os
import sys
import threading

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.standard_streams import is_terminal, write
from pflow_mcp_plugin.storage import LIMIT

_CHUNK = 1 << 20
_PATIENCE = 2.0
"""Seconds after which a line says what the program waits for."""


def input_text() -> str:
    """Return all of standard input as text; empty if it is closed.

    Whoever waits for it is told so after two seconds: a program that is started by another often inherits
    a pipe into which nobody writes.

    Raises:
        PflowError: It is larger than `LIMIT`, or cannot be read.
    """
    stream = sys.stdin
    if stream is None or stream.closed:
        return ""
    notice = threading.Timer(_PATIENCE, _say_what_it_waits_for)
    notice.daemon = True
    if not is_terminal(stream):
        notice.start()
    content = bytearray()
    try:
        # One system call at a time, so that the first bytes are seen as soon as they come.
        while len(content) <= LIMIT and (chunk := os.read(stream.fileno(), _CHUNK)):
            notice.cancel()
            content += chunk
    except OSError as error:
        raise PflowError(f"Standard input cannot be read: {error.strerror or error}", kind="usage") from error
    finally:
        notice.cancel()
    if len(content) > LIMIT:
        message = f"Standard input is larger than {LIMIT >> 20} MiB"
        step = "Give the path of a file to a node that reads it"
        raise PflowError(message, suggestions=(step,), kind="usage")
    return content.decode("utf-8", "replace")


def piped_text() -> str:
    """Return what is piped in, a single line without its end; empty if nothing is, or if it is a terminal.

    `echo word | pflow ...` is then the same as the word itself; text of several lines keeps every end.

    Raises:
        PflowError: See `input_text`.
    """
    return "" if sys.stdin is None or is_terminal(sys.stdin) else whole_input()


def whole_input() -> str:
    """Return all of standard input, a terminal's too, a single line without its end.

    Raises:
        PflowError: See `input_text`.
    """
    text = input_text()
    line = text.removesuffix("\n")
    return line.removesuffix("\r") if "\n" not in line else text


def _say_what_it_waits_for() -> None:
    write(sys.stderr, "Waiting for standard input; if there is none, end the command with < /dev/null")
