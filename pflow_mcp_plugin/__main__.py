"""What runs the package as a program: `pflow`, `pflow-mcp` and `python -m pflow_mcp_plugin` start here."""

from __future__ import annotations

import gc
import os
import sys
import time

from pflow_mcp_plugin.host.ctrl_c import EXIT_CODE, CtrlC, begin_thread

_YOUNG_OBJECTS = 200_000
"""New objects between two garbage collections of the program; the default of 700 slows it by a tenth.

The MCP SDK's modules have 150,000 objects, which stay. A collection while they are imported only costs time.
"""
_GRACE = 10.0
"""Seconds that threads and `atexit` functions of other code have before the program ends itself."""
_GRACE_AFTER_SIGNAL = 1.0
_COMPLETE = "__complete"
"""The word with which shells' completion scripts ask for words; no command can have such a name."""
_SIGNALLED = 128
"""An exit code of the program above this stands for the signal that ended it."""


def main() -> int:
    """Run the package as the program `pflow`, in a process that goes on afterwards; return the exit code.

    Garbage is collected less often than by default, which would slow it.
    """
    gc.set_threshold(_YOUNG_OBJECTS)
    try:
        from pflow_mcp_plugin.host.cli.command_line import main as run_command_line

        return run_command_line()
    except KeyboardInterrupt:  # before the command line could handle it
        from pflow_mcp_plugin.host.cli.command_line import report_interruption

        return report_interruption()


def program() -> int:
    """Run the package as the program `pflow` or `pflow-mcp`; return the exit code for its process.

    The process should then exit like any Python program. If that takes too long, it is ended:
    `atexit` functions may hang, and so may non-daemon threads, for which Python would wait forever.
    """
    if sys.argv[1:2] == [_COMPLETE]:
        # A shell's completion script asks; the process ends at once, as there is nothing to clean up.
        gc.disable()
        try:
            from pflow_mcp_plugin.host.cli.completion import complete

            os._exit(complete(sys.argv[2:]))
        except KeyboardInterrupt:
            os._exit(EXIT_CODE)
    ctrl_c = CtrlC()
    ctrl_c.take()
    try:
        code = main()
        ctrl_c.over = True
    except KeyboardInterrupt:  # a second one, while the first was being reported
        ctrl_c.over = True
        code = EXIT_CODE
    from pflow_mcp_plugin.host.standard_streams import silence

    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # otherwise the interpreter's own flush would fail and change the exit code
            silence(stream)
        except (ValueError, AttributeError):  # closed, or None
            continue
    gc.freeze()  # a last collection over everything loaded would cost a command a fifth of its time
    grace = _GRACE_AFTER_SIGNAL if code > _SIGNALLED else _GRACE
    begin_thread(_end_after, grace, code)
    return code


def _end_after(seconds: float, code: int) -> None:
    time.sleep(seconds)
    import threading

    from pflow_mcp_plugin.host.standard_streams import write

    others = [thread for thread in threading.enumerate() if thread is not threading.main_thread()]
    hung = ", ".join(f"thread {thread.name}" for thread in others if not thread.daemon)
    write(sys.stderr, f"Warning: the program ended without waiting for {hung or 'an atexit function'}")
    os._exit(code)


if __name__ == "__main__":
    sys.exit(program())
