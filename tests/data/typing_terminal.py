"""An interactive shell in a terminal of its own, at which a test types."""

import os
import pty
import re
import select
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

SECONDS = 60
STUB = "pflow() { printf 'GIVEN'; printf '<%s>' \"$@\"; printf 'END\\n'; }"
"""Shows what a completed line would give to the program; completion asks the program itself."""


class Terminal:
    """The terminal of a shell.

    Args:
        descriptor: Its other end.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.shown = ""

    def type(self, keys: str, until: str) -> str:
        """Type keys and return what the terminal shows, up to a pattern."""
        before = len(self.shown)
        os.write(self._descriptor, keys.encode())
        deadline = time.monotonic() + SECONDS
        while not (found := re.search(until, self.shown[before:], re.DOTALL)):
            left = deadline - time.monotonic()
            assert left > 0, self.shown
            if select.select([self._descriptor], [], [], left)[0]:
                self.shown += os.read(self._descriptor, 65536).decode(errors="replace")
        return self.shown[before:][: found.end()]

    def given(self, line: str) -> list[str]:
        """Type a line, with tabs where it is to be completed, and return the arguments of the program."""
        shown = self.type(f"{line}\n", "GIVEN<.*?>END\r?\n")
        return shown.rpartition("GIVEN<")[2].rpartition(">END")[0].split("><")


@contextmanager
def terminal(command: Sequence[str], env: Mapping[str, str], cwd: str, *setup: str) -> Iterator[Terminal]:
    """Start a shell in a terminal, and run lines in it before it is typed at."""
    mine, theirs = pty.openpty()
    shell = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=env, cwd=cwd, start_new_session=True
    )
    os.close(theirs)
    try:
        opened = Terminal(mine)
        for line in (*setup, STUB):
            opened.type(f"{line}; echo DO''NE\n", "DONE\r?\n")
        yield opened
    finally:
        shell.kill()
        shell.wait()
        os.close(mine)
