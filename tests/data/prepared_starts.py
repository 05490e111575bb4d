"""Starts the program from a process that has imported it and the MCP SDK: most of what a start costs.

A start has an environment, a folder and streams of its own. Python and the libraries read some variables
before all else. A start with other values of these than the prepared process has needs a new interpreter,
unless only `PYTHONPATH` differs. `PFLOW_FRESH_STARTS` makes each start a new interpreter.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

_PACKAGE = "pflow_mcp_plugin"
_LIBRARIES = ("anyio._backends._asyncio", "mcp", "mcp.client.session")
_APART = ("__main__", "pytest_plugin", "testing")
"""Modules of the package that no start imports, or each anew."""
_READ_FIRST = ("PYTHON", "LC_", "LANG", "COVERAGE", "LD_", "MALLOC_", "PYDANTIC_")
"""How variables begin that Python and these libraries read when they start."""
_READ_LATER = {"PYTHONPATH", "PYTHON_KEYRING_BACKEND"}
"""Those that a fork takes over, and those of libraries that are not imported yet."""
_CHUNK = 65_536
_NUMBER = 8
_PROGRAM = """#!{python} -SE
import json, os, socket, sys
request = json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]).encode()
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect({address!r})
    socket.send_fds(connection, [len(request).to_bytes({number}, "big")], [0, 1, 2])
    connection.sendall(request)
    numbers = b""
    while len(numbers) < 2 * {number}:
        numbers += connection.recv(2 * {number} - len(numbers)) or sys.exit("the prepared process is gone")
sys.exit(os.waitstatus_to_exitcode(int.from_bytes(numbers[{number}:], "big")))
"""
"""The program for those who start one by its name; it is not sent the signals that they send to this."""


class PreparedStarts:
    """The prepared process, seen from the tests."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._variables = _read_first(os.environ)

    def fits(self, variables: Mapping[str, str]) -> bool:
        """Whether a start with this environment is the same as one of a new interpreter."""
        return _read_first(variables) == self._variables

    def install(self, file: Path) -> None:
        """Write a file that starts the program, with its own streams, folder and environment."""
        file.write_text(
            _PROGRAM.format(python=sys.executable, address=self._address, number=_NUMBER), encoding="utf-8"
        )
        file.chmod(0o755)

    @contextmanager
    def started(
        self, arguments: Sequence[str], variables: Mapping[str, str], folder: Path
    ) -> Iterator[Started]:
        """Start the program, and end it at the end if it still runs."""
        inner, outer = zip(os.pipe(), os.pipe()[::-1], os.pipe()[::-1], strict=True)
        request = json.dumps([list(arguments), dict(variables), str(folder)]).encode()
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(self._address)
            socket.send_fds(connection, [len(request).to_bytes(_NUMBER, "big")], inner)
            connection.sendall(request)
            for stream in inner:
                os.close(stream)
            started = Started(connection, *outer)
            try:
                yield started
            finally:
                started.end()


class Started:
    """A program that was started.

    Attributes:
        pid: Its process id.
    """

    def __init__(self, connection: socket.socket, stdin: int, stdout: int, stderr: int) -> None:
        self._connection = connection
        self._stdin, self._outputs = stdin, (stdout, stderr)
        self._over = False
        self.pid = _number(connection)

    def finished(self, text: str, seconds: float) -> tuple[int, str, str]:
        """Write to its stdin; return its exit code, negative for a signal, and what it wrote."""
        stdout, stderr = exchanged(self._stdin, text.encode(), self._outputs, seconds)
        self._connection.settimeout(seconds)
        code = os.waitstatus_to_exitcode(_number(self._connection))
        self._over = True
        return code, _text(stdout), _text(stderr)

    def end(self) -> None:
        """Kill it if it still runs; until its end was told, the number is its own."""
        if not self._over:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


def exchanged(stdin: int, text: bytes, outputs: Sequence[int], seconds: float) -> list[bytes]:
    """Write a text to a pipe; return what comes out of others until they are closed. All are closed then."""
    until, rest = time.monotonic() + seconds, memoryview(text)
    found = {output: bytearray() for output in outputs}
    os.set_blocking(stdin, False)
    with selectors.DefaultSelector() as waiting, ExitStack() as pipes:
        for pipe in (stdin, *outputs):
            pipes.callback(_closed, waiting, pipe)
            waiting.register(pipe, selectors.EVENT_WRITE if pipe == stdin else selectors.EVENT_READ)
        while waiting.get_map():
            ready = waiting.select(until - time.monotonic())
            if not ready:
                raise TimeoutError(f"the program has not ended after {seconds} seconds")
            for key, _ in ready:
                if key.fd == stdin:
                    rest = more = _written(stdin, rest)
                else:
                    found[key.fd] += (more := os.read(key.fd, _CHUNK))
                if not more:
                    _closed(waiting, key.fd)
    return [bytes(each) for each in found.values()]


def import_all(name: str = _PACKAGE) -> None:
    """Import the package, or a module of it and those below, as far as what they need is installed."""
    with suppress(ImportError):
        module = importlib.import_module(name)
        for found in pkgutil.iter_modules(getattr(module, "__path__", ()), f"{name}."):
            if not found.name.endswith(_APART):
                import_all(found.name)


def _closed(waiting: selectors.BaseSelector, pipe: int) -> None:
    """Close a pipe that is still waited for."""
    if pipe in waiting.get_map():
        waiting.unregister(pipe)
        os.close(pipe)


@contextmanager
def prepared_starts() -> Iterator[PreparedStarts | None]:
    """Keep a process prepared; None where programs have to be started as usual."""
    if os.environ.get("PFLOW_FRESH_STARTS") or not hasattr(os, "pidfd_open"):
        yield None
        return
    with TemporaryDirectory() as folder:
        address = str(Path(folder, "starts"))
        command = [sys.executable, "-P", __file__, address]
        pipe = subprocess.PIPE  # Python's streams know what they were opened on. It ends when its stdin does.
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
            assert process.stdout
            assert process.stderr
            assert process.stdout.readline(), process.stderr.read().decode()
            yield PreparedStarts(address)


def _read_first(variables: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in variables.items()
        if name.startswith(_READ_FIRST) and name not in _READ_LATER
    }


def _text(output: bytes) -> str:
    return output.decode().replace("\r\n", "\n").replace("\r", "\n")


def _written(pipe: int, text: memoryview) -> memoryview:
    """Write what goes in, and return the rest; none where nobody reads."""
    with suppress(BrokenPipeError):
        return text[os.write(pipe, text) :] if text else text
    return memoryview(b"")


def _number(connection: socket.socket) -> int:
    return int.from_bytes(_bytes(connection, _NUMBER), "big")


def _bytes(connection: socket.socket, length: int) -> bytes:
    received = b""
    while len(received) < length:
        chunk = connection.recv(length - len(received))
        if not chunk:
            raise EOFError("the prepared process is gone")
        received += chunk
    return received


def _serve(address: str) -> list[str]:
    """Fork for each request; in the fork, return the arguments of the program."""
    running: dict[int, tuple[int, socket.socket]] = {}
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        print("ready", flush=True)
        while True:
            for ready in select.select([0, listener, *running], [], [])[0]:
                if ready == 0:
                    os._exit(0)
                if ready is not listener:
                    _answer_end(ready, *running.pop(ready))
                    continue
                connection, _ = listener.accept()
                request, streams = _request(connection)
                if (pid := os.fork()) == 0:
                    connection.close()
                    for end, (_, other) in running.items():
                        os.close(end)
                        other.close()
                    return _become(request, streams)
                for stream in streams:
                    os.close(stream)
                running[os.pidfd_open(pid)] = pid, connection
                _answer(connection, pid)


def _request(connection: socket.socket) -> tuple[Any, list[int]]:
    length, streams, _, _ = socket.recv_fds(connection, _NUMBER, 3)
    return json.loads(_bytes(connection, int.from_bytes(length, "big"))), streams


def _answer_end(end: int, pid: int, connection: socket.socket) -> None:
    os.close(end)
    _answer(connection, os.waitpid(pid, 0)[1])
    connection.close()


def _answer(connection: socket.socket, number: int) -> None:
    with suppress(BrokenPipeError):
        connection.sendall(number.to_bytes(_NUMBER, "big"))


def _become(request: tuple[list[str], dict[str, str], str], streams: Sequence[int]) -> list[str]:
    """Take over streams, folder and environment; the streams of Python are unused so far, and stay."""
    arguments, variables, folder = request
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    path = os.environ.get("PYTHONPATH", "")
    os.environ.clear()
    os.environ.update(variables)
    if variables.get("PYTHONPATH", "") != path:
        _import_from([folder for folder in variables.get("PYTHONPATH", "").split(os.pathsep) if folder])
    return arguments


def _import_from(folders: Sequence[str]) -> None:
    """Import from these folders before all others, and run what they have for each start of Python."""
    names = {path.stem for folder in folders for path in Path(folder).glob("*")}
    assert not (names & set(sys.modules)) - {"sitecustomize"}, "this start needs a new interpreter"
    sys.path[:0] = folders
    if "sitecustomize" in names:
        sys.modules.pop("sitecustomize", None)
        importlib.import_module("sitecustomize")


def _run(ends: list[int]) -> None:
    """Run the program, and note its exit code."""
    try:
        runpy.run_module(_PACKAGE, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if isinstance(end.code, int):
            ends.append(end.code & 0xFF)
        raise


def _end(ends: list[int]) -> None:
    """End the process after all that Python does at an exit, but without taking apart each module."""
    if not ends:
        return
    streams = {sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__}
    with suppress(OSError, ValueError):  # Python makes an exit code of this
        for stream in streams - {None}:
            stream.flush()
        os._exit(ends[0])


if __name__ == "__main__":
    _ends: list[int] = []
    atexit.register(_end, _ends)  # as the first: it is called last
    import_all()
    for _name in _LIBRARIES:
        with suppress(ImportError):
            importlib.import_module(_name)
    gc.collect()
    gc.freeze()
    sys.argv[1:] = _serve(sys.argv[1])
    _run(_ends)
