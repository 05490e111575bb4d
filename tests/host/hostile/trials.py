"""Runs pflow many times, each in a process of its own that is forked from this one.

    python trials.py < trials > results

Each line is a list of trials, and answered with a line of their results. A trial is
`{"arguments": [...], "environment": {...}}`; its result is `{"code", "out", "err"}`. A fork takes a twentieth
of the time of a new process, because everything is imported already.
"""

import gc
import io
import json
import os
import sys
import tempfile
import traceback

from prepared_starts import import_all

from pflow_mcp_plugin import __main__ as start


def play(trial):
    """Run one command line; return its exit code and what it wrote."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if not child:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            os._exit(_run(trial))
        _, status = os.waitpid(child, 0)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
    return {"code": os.waitstatus_to_exitcode(status), "out": texts[0], "err": texts[1]}


def _run(trial):
    os.environ.update(trial["environment"])
    sys.argv = ["pflow", *trial["arguments"]]
    # As an interpreter opens them: closing the objects leaves the descriptors open.
    sys.stdout, sys.stderr = (open(number, "w", closefd=False) for number in (1, 2))  # noqa: SIM115
    error = sys.stderr
    try:
        code = start.program()
    except BaseException as end:  # noqa: BLE001 - what the interpreter would print
        code = end.code if isinstance(end, SystemExit) and isinstance(end.code, int) else 1
        if not isinstance(end, SystemExit):
            traceback.print_exc(file=error if not error.closed else io.StringIO())
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            stream.flush()
    return code & 0xFF


if __name__ == "__main__":
    import_all()
    gc.disable()
    for line in sys.stdin:
        print(json.dumps([play(trial) for trial in json.loads(line)]), flush=True)
