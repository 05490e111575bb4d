"""What is piped into the program."""

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


def piped_text() -> str:
    """Return what is piped in; empty if standard input is closed, or a terminal, which is never read.

    Raises:
        PflowError: It is larger than `LIMIT`.
    """
    stream = sys.stdin
    if stream is None or stream.closed or is_terminal(stream):
        return ""
    content = bytearray()
    notice = threading.Timer(_PATIENCE, _say_what_it_waits_for)
    notice.daemon = True
    notice.start()
    try:
        # A single system call at a time, so that the first bytes are seen as soon as they come.
        while len(content) <= LIMIT and (chunk := os.read(stream.fileno(), _CHUNK)):
            notice.cancel()
            content += chunk
    finally:
        notice.cancel()
    if len(content) > LIMIT:
        message = f"Standard input is larger than {LIMIT >> 20} MiB"
        step = "Give the path of a file to a node that reads it"
        raise PflowError(message, suggestions=(step,), kind="usage")
    return content.decode("utf-8", "replace")


def _say_what_it_waits_for() -> None:
    write(sys.stderr, "Waiting for standard input; if nothing is to be read: < /dev/null")
