"""The program on a terminal of its own, with somebody who answers its questions."""

from __future__ import annotations

import os
import pty
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import attrs
import prepared_starts

_SECONDS = 90
_WIDE = "500"
"""Columns of the terminal: no line that a test looks for is broken."""


@attrs.frozen
class Screen:
    """What a run on a terminal left behind.

    Attributes:
        exit_code: How the program ended.
        shown: All that it wrote, with `\\n` for line ends.
    """

    exit_code: int
    shown: str


def run_on_terminal(
    *arguments: str,
    home: Path,
    answers: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    started: Callable[[int], None] = lambda _: None,
    meanwhile: Callable[[], None] = lambda: None,
) -> Screen:
    """Run the program on a terminal and type an answer after each question.

    Args:
        arguments: Its arguments.
        home: Its `PFLOW_HOME`.
        answers: By the text that a question contains, what is typed after it.
        environment: Further variables.
        cwd: Its folder.
        started: Called with its process id.
        meanwhile: Called when the first question is on the screen, before it is answered.
    """
    ours, theirs = pty.openpty()
    process = prepared_starts.start(
        arguments,
        env={**os.environ, "PFLOW_HOME": str(home), "TERM": "xterm", "COLUMNS": _WIDE, **(environment or {})},
        cwd=cwd,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    started(process.pid)
    os.close(theirs)
    shown, left, deadline = b"", dict(answers or {}), time.monotonic() + _SECONDS
    try:
        while part := _read(ours):
            shown += part
            assert time.monotonic() < deadline, shown.decode(errors="replace")
            for question in [
                each for each in left if each.encode() in shown and shown.endswith((b": ", b"?"))
            ]:
                meanwhile()
                os.write(ours, f"{left.pop(question)}\n".encode())
        exit_code = process.wait(_SECONDS)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    text = shown.decode("utf-8", "surrogateescape").replace("\r\n", "\n")
    assert not left, text
    return Screen(exit_code, text)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # how Linux tells that the other end is closed
        return b""
