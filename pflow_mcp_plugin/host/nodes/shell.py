"""The node `shell`."""

from __future__ import annotations

import errno
import itertools
import os
import selectors
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from concurrent.futures import wait
from contextlib import closing, nullcontext, suppress
from itertools import chain, repeat
from types import TracebackType
from typing import IO, Any, Self

import attrs
import pocketflow

from pflow_mcp_plugin.argument_sizes import too_long
from pflow_mcp_plugin.contract import PflowError, Run
from pflow_mcp_plugin.daemon_threads import Threads
from pflow_mcp_plugin.host.nodes.value_nodes import argument, positive, written_params
from pflow_mcp_plugin.host.workflow.coercion import any_json_in, lines_of
from pflow_mcp_plugin.host.workflow.findings import cut
from pflow_mcp_plugin.host.workflow.templates import TemplateReference, as_text, lone, parse
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
    """One stream of a command, `stdout` or `stderr`, of which at most so many bytes are collected."""

    name: str
    most: int
    exceeded: bool = attrs.field(init=False, default=False)
    _data: bytearray = attrs.field(init=False, factory=bytearray, repr=False)

    def add(self, data: bytes) -> None:
        """Add what was read next; what is too much is dropped."""
        left = self.most - len(self._data)
        self.exceeded = self.exceeded or len(data) > left
        self._data += data[:left]

    def text(self) -> str:
        """Return all that was accepted."""
        return self._data.decode("utf-8", "replace")


@attrs.frozen(kw_only=True)
class ChildCommand:
    """What a node starts as a child process: the program, its input and its limits.

    `arguments` are not interpreted by a shell, and `env` is added to the environment of this process. The
    program is ended after `timeout` seconds, and when it writes more than `stdout` or `stderr` accepts.
    """

    arguments: Sequence[str]
    env: Mapping[str, str] = attrs.field(repr=False)
    cwd: str | None
    stdin: str
    timeout: float
    stdout: CommandOutput
    stderr: CommandOutput


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

    def run(self, command: ChildCommand) -> tuple[int, bool]:
        """Run a program until it exits, and end what it leaves running; see `_run`."""
        # On a thread of its own: Ctrl-C is raised in the main thread, where it could otherwise come
        # between the start of a process and its registration in `_running`.
        with Threads(1) as threads:
            work = threads.submit(self._run, command)
            while not work.done():
                wait([work], _NAP)
            return work.result()

    def _run(self, command: ChildCommand) -> tuple[int, bool]:
        """Return the exit code, and whether the program ended in time."""
        process = self._start(command)
        try:
            with closing(_Pipes(process, command)) as pipes:
                in_time = pipes.serve(command.timeout, lambda: self._closed)
                end_groups([process], _GRACE)  # also the processes that it left running
                if not in_time:
                    pipes.drain()
            return process.returncode, in_time
        finally:
            end_groups([process], _GRACE)
            with self._changed:
                self._running.discard(process)
                if self._reaper is not None:
                    self._reaper.unregister(process.pid)
                self._changed.notify_all()

    def _start(self, command: ChildCommand) -> subprocess.Popen[bytes]:
        with self._changed:  # so that `__exit__` misses no process that is being started
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
                start_new_session=True,  # in a group of its own, which can be ended as a whole
            )
            self._running.add(process)
            self._reaper.register(process.pid)
            return process


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
        # A process reads and writes in any order: waiting for one pipe could block both sides.
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
                try:
                    self._unsent = self._unsent[os.write(key.fd, self._unsent) :]
                except BrokenPipeError:  # it does not read all of it
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


TIMEOUT = 300.0
"""Seconds, if the workflow does not set a timeout."""
MOST_OUTPUT = 256.0
"""MiB of each output stream, if the workflow does not set `max_output_mb`."""
_SHELL = "/bin/sh"
_LONGEST_READ = 8 << 20
"""Characters of stdout that are read as lines and as JSON: these take many times the memory of the text."""
_TAIL = 2_000
_REDACTED = 1 << 16
"""Characters at the end of stderr in which secrets are looked for before the end is cut off."""


class Shell(pocketflow.Node):
    """The node `shell` runs a command: a list of arguments, without a shell, or a shell line.

    `command` is read from the params only: a value that happens to be in the shared store is never
    run. What the command leaves running in the background ends with it.
    """

    def prep(self, shared: MutableMapping[str, Any]) -> tuple[ChildCommand, Any]:
        """Return the command of a `shell` node, and the run."""
        command, variables = self.params.get("command"), {}
        if isinstance(command, Mapping):  # a `ShellLine`
            arguments, variables = [_SHELL, "-c", command["line"]], command["variables"]
        elif isinstance(command, str) and command.strip():
            arguments = [_SHELL, "-c", command]
        elif isinstance(command, (list, tuple)) and command:
            arguments = [as_text(word) for word in command]
        else:
            steps = ("Give a line or a list of arguments",)
            raise PflowError("parameter command is empty", suggestions=steps)
        env = {str(key): as_text(value) for key, value in self.params.get("env", {}).items()}
        most = int(positive(self.params, "max_output_mb", MOST_OUTPUT, "MiB") * (1 << 20))
        made = ChildCommand(
            arguments=arguments,
            env={**env, **variables},  # the line refers to its variables, whatever `env` says
            cwd=self.params.get("cwd"),
            stdin=as_text(argument(self.params, shared, "stdin", default="")),
            timeout=positive(self.params, "timeout", TIMEOUT, "seconds"),
            stdout=CommandOutput("stdout", most),
            stderr=CommandOutput("stderr", most),
        )
        return made, shared.get("__run__")

    def exec(self, prep_res: tuple[ChildCommand, Any]) -> tuple[int, bool]:
        """Run the command of a `shell` node."""
        command, run = prep_res
        # In a plain pocketflow program nothing else ends the processes.
        kept = run.resources.get(RESOURCE) if run else None
        try:
            with Processes() if kept is None else nullcontext(kept) as processes:
                return processes.run(command)
        except (OSError, ValueError) as error:
            raise self._not_started(command.arguments[0], run, error) from error

    def post(
        self,
        shared: MutableMapping[str, Any],
        prep_res: tuple[ChildCommand, Any],
        exec_res: tuple[int, bool],
    ) -> str:
        """Write the outputs and the exit code, and return the action."""
        command, run = prep_res
        redact = run.redactor.text if run else str
        shared["stdout"] = stdout = command.stdout.text()
        shared["stderr"] = stderr = command.stderr.text()
        shared["exit_code"] = exec_res[0]
        if len(stdout) <= _LONGEST_READ:
            shared["lines"] = lines_of(stdout)
            if (found := any_json_in(stdout)) is not None:
                shared["json"] = found
        # Redacted before it is cut: a part of a secret would not be found.
        end = redact(stderr[-_REDACTED:]).strip()
        failure = self._failure(command, exec_res, end if len(end) <= _TAIL else f"...{end[-_TAIL:]}")
        shared["error"] = None if failure is None else failure.message
        if failure is None:
            return "default"
        shared["__error__"] = failure
        return failure.action

    def _failure(self, command: ChildCommand, ended: tuple[int, bool], tail: str) -> PflowError | None:
        """Return the error of a command, None if it succeeded; `tail` is the end of its stderr."""
        exit_code, in_time = ended
        action = "error"
        suggestions: tuple[str, ...] = ()
        flooded = next((stream for stream in (command.stdout, command.stderr) if stream.exceeded), None)
        if flooded:
            reason = f"it was ended, as its {flooded.name} is longer than {flooded.most / (1 << 20):g} MiB"
            suggestions = ("Let it write to a file of its own (> FILE), or raise max_output_mb",)
        elif not in_time:
            reason, action = f"it was ended after {command.timeout:g} s", "timeout"
        elif exit_code and self.params.get("check", True):
            how = (
                f"was ended by signal {-exit_code}" if exit_code < 0 else f"ended with exit code {exit_code}"
            )
            reason = f"the command {how}"
        else:
            return None
        message = f"{reason}: {tail}" if tail else reason
        details = {"exit_code": exit_code, "stderr": tail}
        return PflowError(message, details=details, suggestions=suggestions, action=action, ran="ran")

    def _not_started(self, program: str, run: Run | None, error: OSError | ValueError) -> PflowError:
        shown = cut(program)
        steps: tuple[str, ...] = ()
        if isinstance(error, OSError) and error.errno == errno.E2BIG:
            written = written_params(self.params, run)
            message = f"the command cannot be started: {too_long(command_strings(self.params, written))}"
            steps = ("Write the value to a file and pass the path, or pass the value as stdin",)
        elif isinstance(error, FileNotFoundError) and error.filename == program:
            message = f"Command not found: {shown}"
        elif isinstance(error, OSError):
            file = f" ({cut(str(error.filename))})" if error.filename else ""
            message = f"{shown} cannot be started: {error.strerror or error}{file}"
        else:
            message = f"{shown} cannot be started: {error}"
        return PflowError(message, details={"command": shown}, suggestions=steps, ran="not ran")


def command_strings(params: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the strings that a command is started with, by names for messages, in groups."""
    env, raw = params.get("env", {}), written.get("env")
    variables = {
        _named(f"env.{key}", raw.get(key) if isinstance(raw, Mapping) else raw): f"{key}={as_text(value)}"
        for key, value in env.items()
    }
    inherited = {
        f"{key} in the environment of pflow": f"{key}={value}"
        for key, value in os.environ.items()
        if key not in env
    }
    command, raw = params.get("command"), written.get("command")
    if isinstance(command, Mapping):
        templates = (part.text for part in parse(raw or "") if isinstance(part, TemplateReference))
        values = zip(chain(templates, repeat("a template")), command["variables"].items(), strict=False)
        named = {f"the value of {text} in parameter command": "=".join(item) for text, item in values}
        parts = {"parameter command": command["line"], **named}
    elif isinstance(command, str):
        parts = {"parameter command": command}
    else:
        words = zip(command or (), raw if isinstance(raw, list) else repeat(raw), strict=False)
        parts = {
            _named(f"command[{index}]", word): as_text(value) for index, (value, word) in enumerate(words)
        }
    return {
        "parameter command": parts,
        "parameter env": variables,
        "the environment of pflow": inherited,
    }


def _named(parameter: str, raw: Any) -> str:
    template = lone(raw)
    return f"parameter {parameter}" + (f" ({template.text})" if template else "")
