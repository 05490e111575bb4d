"""Starts the program from a process that has imported it and the MCP SDK: most of what a start costs.

A start has an environment, a folder and streams of its own. Python and the libraries read some variables
before all else. A start with other values of these than the prepared process has needs a new interpreter,
unless only `PYTHONPATH` differs. `PFLOW_FRESH_STARTS` makes each start a new interpreter.
"""

import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

_PACKAGE = "pflow_mcp_plugin"
PROGRAM = (sys.executable, "-P", "-m", _PACKAGE)
"""The program in a new interpreter; -P: as the installed programs do, leave the current folder alone."""
_NEEDED = ExitStack()
"""What the prepared process needs, open while there is one."""
_LIBRARIES = ("anyio._backends._asyncio", "mcp", "mcp.client.session")
_APART = ("__main__", "pytest_plugin", "testing")
"""Modules of the package that no start imports, or each anew."""
_READ_FIRST = ("PYTHON", "LC_", "LANG", "COVERAGE", "LD_", "MALLOC_", "PYDANTIC_")
"""How variables begin that Python and these libraries read when they start."""
_READ_LATER = {"PYTHONPATH", "PYTHON_KEYRING_BACKEND"}
"""Those that a fork takes over, and those of libraries that are not imported yet."""
_NUMBER = 8
_PROGRAM = """#!{python} -SE
import json, os, socket, sys
request = json.dumps([sys.argv[1:], dict(os.environ), os.getcwd(), False]).encode()
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


@dataclass(frozen=True)
class Finished:
    """How the program ended."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def envelope(self) -> dict[str, Any]:
        """What `--json` printed; it must be all of stdout."""
        envelope: dict[str, Any] = json.loads(self.stdout)
        return envelope


class PreparedStarts:
    """The prepared process, seen from the tests.

    Attributes:
        program: A file that starts the program, with its own streams, folder and environment.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._variables = _read_first(os.environ)
        self.program = str(Path(address).with_name("pflow"))
        text = _PROGRAM.format(python=sys.executable, address=address, number=_NUMBER)
        Path(self.program).write_text(text, encoding="utf-8")
        Path(self.program).chmod(0o755)

    def fits(self, variables: Mapping[str, str]) -> bool:
        """Whether a start with this environment is the same as one of a new interpreter."""
        return _read_first(variables) == self._variables

    def popen(self, arguments: Sequence[str | Path], **options: Any) -> subprocess.Popen[Any]:
        """Start the program, with the options of `Popen` for streams, folder, environment and session."""
        return _Fork(self._address, arguments, **options)


class _Fork(subprocess.Popen[Any]):
    """A fork of the prepared process. That waits for it, and tells how it ended."""

    def __init__(self, address: str, arguments: Sequence[str | Path], **options: Any) -> None:
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(address)
        super().__init__(arguments, **options)

    def _execute_child(self, arguments: Sequence[str | Path], *options: Any) -> None:
        executable, preexec_fn, _, pass_fds, folder, variables, *_ = options
        pipes, (*_, new_session, process_group) = options[9:15], options[15:]
        assert (executable, preexec_fn, pass_fds, process_group) == (None, None, (), -1), "not done here"
        streams = [
            pipe if pipe >= 0 else number for number, pipe in enumerate((pipes[0], pipes[3], pipes[5]))
        ]
        words = [str(word) for word in arguments]
        variables = dict(os.environ if variables is None else variables)
        request = json.dumps([words, variables, str(folder or Path.cwd()), new_session]).encode()
        try:
            socket.send_fds(self._connection, [len(request).to_bytes(_NUMBER, "big")], streams)
            self._connection.sendall(request)
            self.pid = _number(self._connection)
            self._child_created = True
        finally:
            self._close_pipe_fds(*pipes)

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None and self._waitpid_lock.acquire(blocking=False):
            try:
                ended, status = self._try_wait(os.WNOHANG)
                if ended:
                    self._handle_exitstatus(status)
            finally:
                self._waitpid_lock.release()
        return self.returncode

    def _try_wait(self, flags: int) -> tuple[int, int]:
        if flags & os.WNOHANG and not select.select([self._connection], [], [], 0)[0]:
            return 0, 0
        with self._connection:
            return self.pid, _number(self._connection)


def import_all(name: str = _PACKAGE) -> None:
    """Import the package, or a module of it and those below, as far as what they need is installed."""
    with suppress(ImportError):
        module = importlib.import_module(name)
        for found in pkgutil.iter_modules(getattr(module, "__path__", ()), f"{name}."):
            if not found.name.endswith(_APART):
                import_all(found.name)


def words(variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return the words that start the program, for another that starts it by its name."""
    process = prepared()
    return (process.program,) if process and process.fits(variables) else PROGRAM


def start(
    arguments: Sequence[str | Path], *, env: Mapping[str, str] | None = None, **options: Any
) -> subprocess.Popen[Any]:
    """Start the program with these arguments, and the options of `Popen`; its text is UTF-8."""
    variables = dict(os.environ if env is None else env)
    options = {"env": variables, "encoding": "utf-8", **options}
    process = prepared()
    if process and process.fits(variables):
        return process.popen(arguments, **options)
    return subprocess.Popen([*PROGRAM, *map(str, arguments)], **options)


@cache
def prepared() -> PreparedStarts | None:
    """Return the prepared process, which the first call starts; None where programs start as usual."""
    if os.environ.get("PFLOW_FRESH_STARTS") or not hasattr(os, "pidfd_open"):
        return None
    folder = _NEEDED.enter_context(TemporaryDirectory())
    address = str(Path(folder, "starts"))
    command = [sys.executable, "-P", __file__, address]
    # What a test marks its own programs with would make this one look as if it were left behind.
    env = {name: value for name, value in os.environ.items() if not name.startswith("PFLOW_")}
    pipe = subprocess.PIPE  # Python's streams know what they were opened on. It ends when its stdin does.
    process = _NEEDED.enter_context(subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, stderr=pipe))
    assert process.stdout
    assert process.stderr
    assert process.stdout.readline(), process.stderr.read().decode()
    return PreparedStarts(address)


@contextmanager
def ended_at_last() -> Iterator[None]:
    """End the prepared process at the end of the block, if there is one."""
    with _NEEDED:
        yield
    prepared.cache_clear()


def _read_first(variables: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in variables.items()
        if name.startswith(_READ_FIRST) and name not in _READ_LATER
    }


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
                    for end, (_, other) in running.items():
                        os.close(end)
                        other.close()
                    return _become(request, streams, connection)
                for stream in streams:
                    os.close(stream)
                running[os.pidfd_open(pid)] = pid, connection


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


def _become(
    request: tuple[list[str], dict[str, str], str, bool], streams: Sequence[int], connection: socket.socket
) -> list[str]:
    """Take over session, streams, folder and environment; say one's process id when that may be signalled."""
    arguments, variables, folder, new_session = request
    if new_session:
        os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    _answer(connection, os.getpid())
    connection.close()
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if not stat.S_ISFIFO(os.fstat(number).st_mode):
            _reopen(number, name)
    os.chdir(folder)
    path = os.environ.get("PYTHONPATH", "")
    os.environ.clear()
    os.environ.update(variables)
    if variables.get("PYTHONPATH", "") != path:
        _import_from([folder for folder in variables.get("PYTHONPATH", "").split(os.pathsep) if folder])
    return arguments


def _reopen(number: int, name: str) -> None:
    """Make one of Python's streams anew on its descriptor, which is no pipe as it was."""
    before = getattr(sys, name)
    lines = name == "stderr" or os.isatty(number)
    stream = open(  # noqa: SIM115
        number,
        "r" if name == "stdin" else "w",
        encoding=before.encoding,
        errors=before.errors,
        closefd=False,
        buffering=1 if lines else -1,
    )
    setattr(sys, name, stream)
    setattr(sys, f"__{name}__", stream)


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
