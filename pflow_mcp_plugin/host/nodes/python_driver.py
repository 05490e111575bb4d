"""Runs the code of a node `python`. A program of its own, started by its path; standard library only.

Run as `python -I -X utf8 python_driver.py CHANNEL MEMORY_MB`. It reads a JSON object with `code` and `inputs`
from standard input, and writes JSON lines to the descriptor CHANNEL: what the code left in `result`, or how
it failed, and finally how its process ended.

The code runs in a child of this process, which waits for it and adopts what outlives its parents: nothing
that the code starts gets away, whatever session or environment it has.
"""

from __future__ import annotations

import contextlib
import json
import linecache
import math
import os
import signal
import sys
import time
import traceback
import types
from pathlib import Path
from typing import Any

_FILE = "<code>"
_DEEPEST = 100
"""The most levels of lists and objects in a result."""
_LONGEST = 10_000
"""The most characters of a message."""
_GRACE = 0.5
"""Seconds that the code has after SIGTERM."""
_KILLED = 2.0
"""Seconds in which killed processes must end."""
_MIB = 1 << 20
_ENDING = {signal.SIGTERM, signal.SIGHUP, signal.SIGINT}
_WATCHED = {*_ENDING, signal.SIGCHLD, signal.SIGALRM}
_CHILDREN = Path("/proc/thread-self/children")
_Link = tuple[Any, Any]
"""Where a value is: the link of its container, and its key there."""


def main() -> None:
    """The driver's program: run the code from standard input, and report how it ended."""
    channel, memory_mb = int(sys.argv[1]), float(sys.argv[2])
    os.set_inheritable(channel, False)  # noqa: FBT003  # takes no keyword; what the code starts cannot write to it
    task = sys.stdin.buffer.read()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    if sys.platform == "linux":  # become the parent of processes whose parent ends; only on Linux
        import ctypes

        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    child = os.fork()
    if not child:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED)
        sys.exit(_run(task, memory_mb, channel))
    del task
    exit_code = _watch(child)
    _end_children(child if exit_code is None else None)
    _say(channel, {"exit": -signal.SIGTERM if exit_code is None else exit_code})
    os._exit(0)


def _watch(child: int) -> int | None:
    """Return the exit code of the child that runs the code, None if it outlives a signal to the driver."""
    while True:
        number = signal.sigwait(_WATCHED)
        if number in _ENDING:  # the whole group was signalled, including the child
            signal.setitimer(signal.ITIMER_REAL, _GRACE)
        elif number == signal.SIGALRM:
            return None
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                if found[0] == child:
                    return os.waitstatus_to_exitcode(found[1])


def _end_children(child: int | None) -> None:
    """Kill all the driver's remaining processes: the child, if it was not waited for, and adopted ones."""
    end = time.monotonic() + _KILLED
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < end:
            found = {child} if child else set()
            with contextlib.suppress(OSError):
                found |= set(map(int, _CHILDREN.read_bytes().split()))
            for pid in found:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            ended, _ = os.waitpid(-1, os.WNOHANG)
            child = None if ended == child else child
            if not ended:
                time.sleep(0.005)


def _run(task: bytes, memory_mb: float, channel: int) -> int:
    """Run the code in the driver's child: report its `result` or its failure, and return the exit code."""
    import resource

    own = os.getpid()
    spare = bytearray(_MIB)  # kept for the report, if the code uses up everything else
    names: dict[str, Any] = {}
    try:
        most = int(memory_mb * _MIB)
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        with contextlib.suppress(ValueError, OSError):  # macOS has no such limit
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
        given = json.loads(task)
        del task
        code = given["code"]
        module = types.ModuleType("__main__")
        sys.modules["__main__"], names = module, vars(module)
        names.update(given["inputs"])
        del given
        # Although there is no such file: with it, a traceback shows the lines.
        linecache.cache[_FILE] = (len(code), None, code.splitlines(keepends=True), _FILE)
        exec(compile(code, _FILE, "exec", dont_inherit=True), names)  # noqa: S102  # what the workflow's author wrote
        report, exit_code = _result(names.get("result")), 0
    except BaseException as error:  # noqa: BLE001  # whatever the code raises is reported
        del spare
        report, exit_code = _failure(error, names), 1
        if isinstance(error, SystemExit):
            exit_code = (error.code or 0) & 0xFF if isinstance(error.code, int | None) else 1
            if not exit_code:
                report = _result(names.get("result"))
    if os.getpid() != own:  # a fork of the code reached its end, too
        os._exit(exit_code)
    _say(channel, report)
    return 1 if exit_code == 0 and "failed" in report else exit_code


def _result(value: object) -> dict[str, Any]:
    message = _fault(value)
    return {"failed": {"message": message, "type": "result"}} if message else {"result": value}


def _fault(value: object) -> str:
    """Return what in a result the driver cannot report as JSON, with its place; empty if nothing."""
    pending: list[tuple[Any, _Link | None, int]] = [([value], None, -1)]
    while pending:
        holder, link, depth = pending.pop()
        for key, item in holder.items() if isinstance(holder, dict) else enumerate(holder):
            if item is None or isinstance(item, (str, int)):
                fault = ""
            elif isinstance(item, float):
                fault = "" if math.isfinite(item) else f"is {item}, which JSON does not have"
            elif not isinstance(item, (list, tuple, dict)):
                fault = f"is of type {type(item).__name__}, which JSON does not have"
            elif depth >= _DEEPEST:
                fault = f"is nested more than {_DEEPEST} levels deep"
            else:
                fault = ""
                pending.append((item, (link, key), depth + 1))
            if not isinstance(key, (str, int)) or (isinstance(holder, dict) and not isinstance(key, str)):
                return f"{_place(link)} has the key {key!r:.60}; in JSON a key is a string"
            if fault:
                return f"{_place((link, key))} {fault}"
    return ""


def _place(link: _Link | None) -> str:
    keys: list[Any] = []
    while link is not None:
        link, key = link
        keys.append(key)
    steps = [f"[{key!r:.60}]" for key in reversed(keys[:-1])]  # the last key is the result itself
    shown = [*steps[:5], "...", *steps[-2:]] if len(steps) > 8 else steps
    return "result" + "".join(shown)


def _failure(error: BaseException, names: dict[str, Any]) -> dict[str, Any]:
    """Return the driver's report of an exception; print its traceback from the line of the code on."""
    line, where = 0, error.__traceback__
    while where is not None and where.tb_frame.f_code.co_filename == __file__:
        where = where.tb_next
    inside = where
    while inside is not None:
        line = inside.tb_lineno if inside.tb_frame.f_code.co_filename == _FILE else line
        inside = inside.tb_next
    if isinstance(error, MemoryError):
        traceback.clear_frames(where)
        names.clear()
    if isinstance(error, SyntaxError) and error.filename == _FILE and where is None:
        line = error.lineno or 0
    message = _message(error)
    with contextlib.suppress(Exception):
        if not isinstance(error, SystemExit):
            sys.stdout.flush()
            traceback.print_exception(type(error), error, where, file=sys.__stderr__)
    missing = error.name if isinstance(error, (ModuleNotFoundError, NameError)) else None
    return {"failed": {"message": message, "type": type(error).__name__, "line": line, "name": missing}}


def _message(error: BaseException) -> str:
    try:
        if isinstance(error, SystemExit):
            return f"sys.exit({error.code!r})"[:_LONGEST]
        text = error.msg if isinstance(error, SyntaxError) else str(error)
    except Exception:  # noqa: BLE001  # the class may be the code's own
        text = ""
    name = type(error).__name__
    return f"{name}: {text}"[:_LONGEST] if text else name


def _say(channel: int, report: dict[str, Any]) -> None:
    try:
        data = memoryview(json.dumps(report, separators=(",", ":")).encode() + b"\n")
    except (ValueError, MemoryError) as error:  # an integer too long to be written, or no memory for the text
        failed = {
            "message": f"result cannot be written as JSON: {_message(error)}",
            "type": type(error).__name__,
        }
        data = memoryview(json.dumps({"failed": failed}).encode() + b"\n")
        report["failed"] = failed
    with contextlib.suppress(BrokenPipeError):
        while data:
            data = data[os.write(channel, data) :]


if __name__ == "__main__":
    main()
