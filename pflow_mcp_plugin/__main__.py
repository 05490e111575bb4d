"""The program: `pflow`, `pflow-mcp` and `python -m pflow_mcp_plugin` all start here."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from typing import NoReturn

_YOUNG_OBJECTS = 50_000
"""New objects between two garbage collections; Python's 700 cost a short command a tenth of its time."""


def main() -> int:
    """Run the command line of this process and return the exit code."""
    gc.set_threshold(_YOUNG_OBJECTS)
    try:
        from pflow_mcp_plugin.host.cli.main import main as run_command_line

        return run_command_line()
    except KeyboardInterrupt:  # while modules were still being imported
        return 130


def program() -> NoReturn:
    """Run, and end the process without the interpreter's own teardown.

    Taking every module apart costs a short command a tenth of its time, and by then nothing is
    left that needs it: output is flushed, connections and files are closed.
    """
    code = main()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or never there
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    program()
