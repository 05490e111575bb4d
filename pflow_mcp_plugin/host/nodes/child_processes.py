"""Child processes of nodes such as `shell`: fed, read, limited, and ended with all that they started."""

from __future__ import annotations

import itertools
import os
import selectors
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import wait
from contextlib import closing, nullcontext, suppress
from typing import IO, Self

import attrs

from pflow_mcp_plugin.contract import PflowError, Problem, Run
from pflow_mcp_plugin.daemon_threads import Threads
from pflow_mcp_plugin.processes.process_group import Reaper, end_groups, shared_reaper
from pflow_mcp_plugin.processes.reaper_process import MARKER, end_marked

RESOURCE = "child processes"
"""The key of a run's `Processes` among its `resources`."""
DRAIN = 0.5
"""Seconds for which output is still read after a process has exited."""
CHANNEL = "CHANNEL"
"""The argument of a command that is replaced by the descriptor of its channel."""
_GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL."""
_NAP = 0.1
"""Seconds of one wait: a Ctrl-C just before a wait does not interrupt it, nor does the end of a process
whose pipes another one keeps open."""
_CHUNK = 1 << 16
_REDACTED = 1 << 16
"""The number of characters at the end of an output that are searched for secrets."""
_numbers = itertools.count(1)


@attrs.define
class CommandOutput:
    """The `stdout` or `stderr` of a node's child process, kept up to `most` bytes."""

    name: str
    most: int
    exceeded: bool = attrs.field(init=False, default=False)
    _data: bytearray = attrs.field(init=False, factory=bytearray, repr=False)

    def add(self, data: bytes) -> None:
        """Add what was read next from the child process; drop what exceeds the limit."""
        left = self.most - len(self._data)
        self.exceeded = self.exceeded or len(data) > left
        self._data += data[:left]

    def text(self, node: str = "", run: Run | None = None) -> str:
        """Return what the child process wrote; a `run` warns of bytes of its node that are not UTF-8."""
        try:
            return self._data.decode()
        except UnicodeDecodeError:
            if run is not None:
                message = f"Node {node}: bytes of its {self.name} are not UTF-8, and became U+FFFD"
                step = "Let it write UTF-8, or write data to a file of its own"
                problem = Problem(message=message, suggestion=step, severity="warning", kind="execution")
                run.warn(problem)
            return self._data.decode("utf-8", "replace")

    def end(self, redact: Callable[[str], str]) -> str:
        """Return the end of a child's output, redacted before it is cut: half a secret would not be found."""
        return redact(self.text()[-_REDACTED:]).strip()


@attrs.frozen(kw_only=True)
class ChildCommand:
    """What a node starts as a child process: the program, its input and its limits.

    `arguments` are not interpreted by a shell, and `env` is its whole environment. The program is ended after
    `timeout` seconds, or when it writes more than one of its outputs accepts. If there is a `channel`, it
    gets a pipe for it, whose descriptor replaces `CHANNEL` in its arguments.
    """

    arguments: Sequence[str]
    env: Mapping[str, str] = attrs.field(repr=False)
    cwd: str | None
    stdin: bytes
    timeout: float
    stdout: CommandOutput
    stderr: CommandOutput
    channel: CommandOutput | None = None

    def cut_short(self, what: str, *, in_time: bool) -> tuple[str, str, str]:
        """Return why the child process was ended, the action, and the next step; else three empty strings."""
        for output in (self.stdout, self.stderr, self.channel):
            if output and output.exceeded:
                most = f"{output.most / (1 << 20):g} MiB"
                reason = f"{what} was ended, as its {output.name} is longer than {most}"
                return reason, "error", "Let it write to a file of its own, or raise max_output_mb"
        if in_time:
            return "", "error", ""
        return f"{what} was ended after {self.timeout:g} s", "timeout", "Raise timeout if it needs longer"

    def run(self, run: Run | None) -> tuple[int, bool]:
        # In a plain pocketflow program nothing else ends the processes.
        kept = run.resources.get(RESOURCE) if run else None
        with Processes() if kept is None else nullcontext(kept) as processes:
            return processes.run(self)


class Processes:
    """Starts child processes for nodes; on exit ends those that still run, with all that they started.

    A process that left its group, as `setsid` does, is found by a marker in its environment. If this process
    is killed, the reaper ends all of them.
    """

    def __init__(self) -> None:
        self._reaper: Reaper | None = None
        self._marker = ""
        self._changed = threading.Condition()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
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
        """Start no more child processes, and have the waiting threads end the others; returns at once."""
        with self._changed:
            self._closed = True

    def run(self, command: ChildCommand) -> tuple[int, bool]:
        """Run a child process; return its exit code and whether it ended in time. End what it leaves."""
        # On a thread of its own: Ctrl-C is raised in the main thread, where it could otherwise come
        # between the start of a process and its registration in `_running`.
        with Threads(1) as threads:
            work = threads.submit(self._run, command)
            while not work.done():
                wait([work], _NAP)
            return work.result()

    def _run(self, command: ChildCommand) -> tuple[int, bool]:
        process, channel = self._start(command)
        try:
            with closing(_Pipes(process, command, channel)) as pipes:
                in_time = pipes.serve(command.timeout, lambda: self._closed)
                was_stopped = self._closed and (process.poll() is None or process.returncode < 0)
                end_groups([process], _GRACE)  # and the processes that it left running
                if not in_time:
                    pipes.drain()
            if was_stopped:
                raise PflowError("It was ended, because the run was", kind="interrupted", ran="unknown")
            return process.returncode, in_time
        finally:
            end_groups([process], _GRACE)
            with self._changed:
                self._running.discard(process)
                if self._reaper is not None:
                    self._reaper.unregister(process.pid)
                self._changed.notify_all()

    def _start(self, command: ChildCommand) -> tuple[subprocess.Popen[bytes], IO[bytes] | None]:
        """Start a child process; return it, and what reads its channel if it has one."""
        with self._changed:  # so that `__exit__` misses no process being started
            if self._closed:
                raise OSError("the run has ended")
            if self._reaper is None:
                self._reaper = shared_reaper.acquire()
                self._marker = f"{self._reaper.marker}.shell-{next(_numbers)}."
            reading, writing = os.pipe() if command.channel else (None, None)
            try:
                process = subprocess.Popen(  # noqa: S603  # the workflow's author wrote it
                    [str(writing) if word is CHANNEL else word for word in command.arguments],
                    cwd=command.cwd,
                    env={**command.env, MARKER: self._marker},
                    pass_fds=() if writing is None else (writing,),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,  # in a group of its own, which can be ended as a whole
                )
            except BaseException:
                if reading is not None:
                    os.close(reading)
                raise
            finally:
                if writing is not None:
                    os.close(writing)
            self._running.add(process)
            self._reaper.register(process.pid, _GRACE)
        return process, None if reading is None else os.fdopen(reading, "rb", 0)


class _Pipes:
    """The pipes of a child process: feeds its stdin and reads its output until it exits.

    It does not wait for the end of the output, as a process in the background may keep the pipes open.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], command: ChildCommand, channel: IO[bytes] | None
    ) -> None:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None  # noqa: PT018, S101  # started with pipes
        self._process = process
        self._stdin = process.stdin
        self._unsent = memoryview(command.stdin)
        self._outputs = {process.stdout: command.stdout, process.stderr: command.stderr}
        if channel is not None and command.channel is not None:
            self._outputs[channel] = command.channel
        self._selector = selectors.DefaultSelector()
        # A process reads and writes in any order: waiting for one pipe could block both sides.
        for pipe in (self._stdin, *self._outputs):
            os.set_blocking(pipe.fileno(), False)
            event = selectors.EVENT_WRITE if pipe is self._stdin else selectors.EVENT_READ
            self._selector.register(pipe, event, pipe)

    def serve(self, timeout: float, stopped: Callable[[], bool]) -> bool:
        """Return when the child process exits, writes too much or must stop; False after `timeout`."""
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
        """Read what is left in a child's pipes: for a short time, as they may stay open."""
        self._done(self._stdin)
        end = time.monotonic() + DRAIN
        while self._selector.get_map() and not self._exceeded and (left := end - time.monotonic()) > 0:
            self._step(left)

    def close(self) -> None:
        for pipe in (self._stdin, *self._outputs):
            self._done(pipe)
        self._selector.close()

    @property
    def _exceeded(self) -> bool:
        return any(output.exceeded for output in self._outputs.values())

    def _step(self, seconds: float) -> None:
        if not self._selector.get_map():  # all are closed; the process may still be busy
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
            return
        for key, _ in self._selector.select(seconds):
            if key.data is self._stdin:
                try:
                    self._unsent = self._unsent[os.write(key.fd, self._unsent) :]
                except BrokenPipeError:  # the process does not read all of it
                    self._unsent = self._unsent[:0]
                if not self._unsent:
                    self._done(self._stdin)
            elif data := os.read(key.fd, _CHUNK):
                self._outputs[key.data].add(data)
            else:
                self._done(key.data)

    def _done(self, pipe: IO[bytes]) -> None:
        if not pipe.closed:
            self._selector.unregister(pipe)
            pipe.close()
