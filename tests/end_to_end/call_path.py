"""Run a command and print the functions of the package that stand between `main` and the pipe.

What the main thread is in when the arguments of a call are written, then what the event loop's
thread is in: one line each, outermost first.

    python call_path.py NEEDLE run WORKFLOW.json
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pflow_mcp_plugin
from pflow_mcp_plugin.host.cli.main import main

PACKAGE = str(Path(pflow_mcp_plugin.__file__).parent)
NEEDLE, WORDS = sys.argv[1].encode(), sys.argv[2:]
path: list[str] = []


def functions(frame: FrameType | None) -> Iterator[str]:
    """Yield the package's functions that a frame is called from, innermost first."""
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(PACKAGE):
            yield f"{code.co_filename[len(PACKAGE) + 1 :]}:{code.co_qualname}"
        frame = frame.f_back


def watch(frame: FrameType, event: str, argument: object) -> None:
    """Take down the path at the first call that is handed the needle as bytes to write."""
    if path or not frame.f_code.co_qualname.startswith("PipeWriter."):
        return
    if any(isinstance(value, bytes) and NEEDLE in value for value in frame.f_locals.values()):
        waiting = sys._current_frames()[threading.main_thread().ident or 0]
        path.extend(reversed([*functions(frame), *functions(waiting)]))


threading.settrace(watch)
code = main(WORDS)
print("\n".join(path), file=sys.stderr)
raise SystemExit(code)
