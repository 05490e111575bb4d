"""Child processes of a run, each the leader of a process group that is ended as a whole."""

from __future__ import annotations

import itertools
import os
import selectors
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import wait
from contextlib import closing, suppress
from types import TracebackType
from typing import IO, Self

import attrs

from pflow_mcp_plugin.daemon_threads import Threads
from pflow_mcp_plugin.processes.process_group import Reaper, end_groups, shared_reaper
from pflow_mcp_plugin.processes.reaper_process import MARKER, end_marked

RESOURCE = "shell"
"""The key of a run's `Processes`: `run.resources["shell"]`."""
DRAIN = 0.5
"""Seconds for which output is still read after a process has exited."""
_GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL."""
_NAP = 0.1
"""Seconds of one wait: a Ctrl-C just before a wait does not interrupt it, nor does the end of a process
whose pipes another one keeps open."""
_CHUNK = 1 << 16
_numbers = itertools.count(1)


@attrs.define
class CommandOutput:
    """One stream of a command, collected while it is read.

    Attributes:
        name: `stdout` or `stderr`.
        most: Bytes that are accepted.
        exceeded: Whether there was more; the rest was dropped.
    """

    name: str
    most: int
    exceeded: bool = attrs.field(init=False, default=False)
    _data: bytearray = attrs.field(init=False, factory=bytearray, repr=False)

    def add(self, data: bytes) -> None:
        """Add what was read next."""
        left = self.most - len(self._data)
        self.exceeded = self.exceeded or len(data) > left
        self._data += data[:left]

    def text(self) -> str:
        """Return all that was accepted."""
        return self._data.decode("utf-8", "replace")


@attrs.frozen(kw_only=True)
class ChildCommand:
    """What a node starts as a child process: the program, its input and its limits.

    Attributes:
        arguments: The program and its arguments; not interpreted by a shell.
        env: Variables it gets in addition to those of this process.
        cwd: Its working folder.
        stdin: The text on its standard input.
        timeout: Seconds after which it is ended.
        stdout: Collects its standard output; the program is ended when this is exceeded.
        stderr: The same for its standard error.
    """

    arguments: Sequence[str]
    env: Mapping[str, str] = attrs.field(repr=False)
    cwd: str | None
    stdin: str
    timeout: float
    stdout: CommandOutput
    stderr: CommandOutput


@attrs.frozen(kw_only=True)
class Finished:
    """How a process ended."""

    exit_code: int
    timed_out: bool = False


class Processes:
    """Starts child processes; on exit ends those that still run, with all that they started.

    What left its group, as `setsid` does, is found by a marker in its environment. If this process is killed,
    the reaper ends all of it.
    """

    def __init__(self) -> None:
        self._reaper: Reaper | None = None
        self._marker = ""
        self._changed = threading.Condition()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._closed = True
            running = list(self._running)
        end_groups(running, _GRACE)
        with self._changed:  # their threads close the pipes
            self._changed.wait_for(lambda: not self._running, 2 * DRAIN)
            reaper, self._reaper = self._reaper, None
        if reaper is not None:
            end_marked(self._marker)
            shared_reaper.release()

    def stop(self) -> None:
        """Let the child processes that run be ended by those who wait for them, and start no more.

        It returns at once and may be called from any thread.
        """
        with self._changed:
            self._closed = True

    def run(self, command: ChildCommand) -> Finished:
        """Run a program until it exits, and end what it leaves running.

        Raises:
            OSError: It cannot be started.
        """
        # On a thread of its own: Ctrl-C is raised in the main thread, where it could otherwise come
        # between the start of a process and its registration in `_running`.
        with Threads(1) as threads:
            work = threads.submit(self._run, command)
            while not work.done():
                wait([work], _NAP)
            return work.result()

    def _run(self, command: ChildCommand) -> Finished:
        process = self._start(command)
        try:
            with closing(_Pipes(process, command)) as pipes:
                in_time = pipes.serve(command.timeout, lambda: self._closed)
                end_groups([process], _GRACE)  # also the processes that it left running
                if not in_time:
                    pipes.drain()
            return Finished(exit_code=process.returncode, timed_out=not in_time)
        finally:
            end_groups([process], _GRACE)
            self._forget(process)

    def _start(self, command: ChildCommand) -> subprocess.Popen[bytes]:
        with self._changed:
            if self._closed:
                raise OSError("the run has ended")
            if self._reaper is None:
                self._reaper = shared_reaper.acquire()
                self._marker = f"{self._reaper.marker}.shell-{next(_numbers)}."
            process = subprocess.Popen(  # noqa: S603  # what the workflow's author wrote
                list(command.arguments),
                cwd=command.cwd,
                env={**os.environ, **command.env, MARKER: self._marker},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            self._running.add(process)
            self._reaper.register(process.pid)
            return process

    def _forget(self, process: subprocess.Popen[bytes]) -> None:
        with self._changed:
            self._running.discard(process)
            if self._reaper is not None:
                self._reaper.unregister(process.pid)
            self._changed.notify_all()


class _Pipes:
    """The pipes of a process: feeds its stdin and reads its output until it exits.

    It does not wait for the end of the output, as a process in the background may keep the pipes open.
    """

    def __init__(self, process: subprocess.Popen[bytes], command: ChildCommand) -> None:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None  # noqa: PT018, S101  # started with pipes
        self._process = process
        self._stdin = process.stdin
        self._unsent = memoryview(command.stdin.encode("utf-8", "replace"))
        self._outputs = {process.stdout: command.stdout, process.stderr: command.stderr}
        self._selector = selectors.DefaultSelector()
        for pipe in (self._stdin, *self._outputs):
            os.set_blocking(pipe.fileno(), False)
            event = selectors.EVENT_WRITE if pipe is self._stdin else selectors.EVENT_READ
            self._selector.register(pipe, event, pipe)

    def serve(self, timeout: float, stopped: Callable[[], bool]) -> bool:
        """Return when the process has exited, wrote too much or is to stop; False if the time is over."""
        end = time.monotonic() + timeout
        while self._process.poll() is None:
            left = end - time.monotonic()
            if left <= 0:
                return False
            self._step(min(left, _NAP))
            if self._exceeded or stopped():
                return True
        self.drain()
        return True

    def drain(self) -> None:
        """Read what is left to read: for a short time, as the pipes may stay open."""
        self._done(self._stdin)
        end = time.monotonic() + DRAIN
        while self._selector.get_map() and not self._exceeded and (left := end - time.monotonic()) > 0:
            self._step(left)

    def close(self) -> None:
        """Close the pipes."""
        for pipe in (self._stdin, *self._outputs):
            self._done(pipe)
        self._selector.close()

    @property
    def _exceeded(self) -> bool:
        return any(output.exceeded for output in self._outputs.values())

    def _step(self, seconds: float) -> None:
        if not self._selector.get_map():  # all are closed; the process may do something else first
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
            return
        for key, _ in self._selector.select(seconds):
            if key.data is self._stdin:
                self._feed()
            elif data := os.read(key.fd, _CHUNK):
                self._outputs[key.data].add(data)
            else:
                self._done(key.data)

    def _feed(self) -> None:
        try:
            self._unsent = self._unsent[os.write(self._stdin.fileno(), self._unsent) :]
        except BrokenPipeError:  # it does not read all of it
            self._unsent = self._unsent[:0]
        if not self._unsent:
            self._done(self._stdin)

    def _done(self, pipe: IO[bytes]) -> None:
        if not pipe.closed:
            self._selector.unregister(pipe)
            pipe.close()
