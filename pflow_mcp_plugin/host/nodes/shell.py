"""The node `shell`."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import attrs
import pocketflow

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.nodes.child_processes import RESOURCE, Finished, Processes
from pflow_mcp_plugin.host.nodes.node_arguments import argument
from pflow_mcp_plugin.host.workflow.templates import as_text

TIMEOUT = 300.0
"""Seconds, if the workflow does not set a timeout."""
_LONGEST = 2_000_000.0
"""Seconds; the operating system does not wait longer than 24 days."""
_SHELL = "/bin/sh"
_TAIL = 2_000


@attrs.frozen(kw_only=True)
class _Job:
    arguments: Sequence[str]
    env: Mapping[str, str]
    cwd: str | None
    stdin: str
    timeout: float
    check: bool
    processes: AbstractContextManager[Processes]


class Shell(pocketflow.Node):
    """Runs a command: a list of arguments, without a shell, or a shell line.

    `command` is read from the params only: a value that happens to be in the shared store is never
    run.
    """

    def prep(self, shared: MutableMapping[str, Any]) -> _Job:
        """Return the command and how to run it.

        Raises:
            PflowError: The command is empty, or the timeout is not positive.
        """
        arguments, variables = _command(self.params.get("command"))
        env = {str(key): as_text(value) for key, value in self.params.get("env", {}).items()}
        run = shared.get("__run__")
        kept = run.resources.get(RESOURCE) if run else None
        return _Job(
            arguments=arguments,
            env={**env, **variables},
            cwd=self.params.get("cwd"),
            stdin=as_text(argument(self.params, shared, "stdin", default="")),
            timeout=_seconds(self.params.get("timeout", TIMEOUT)),
            check=self.params.get("check", True),
            processes=Processes() if kept is None else nullcontext(kept),
        )

    def exec(self, prep_res: _Job) -> Finished:
        """Run the command.

        Raises:
            PflowError: It cannot be started.
        """
        try:
            with prep_res.processes as processes:
                return processes.run(
                    prep_res.arguments,
                    cwd=prep_res.cwd,
                    env=prep_res.env,
                    stdin=prep_res.stdin,
                    timeout=prep_res.timeout,
                )
        except (OSError, ValueError) as error:
            raise _not_started(prep_res, error) from error

    def post(self, shared: MutableMapping[str, Any], prep_res: _Job, exec_res: Finished) -> str:
        """Write `stdout`, `stderr` and `exit_code`, and return the action."""
        shared["stdout"] = exec_res.stdout
        shared["stderr"] = exec_res.stderr
        shared["exit_code"] = exec_res.exit_code
        shared["error"] = None
        if exec_res.timed_out:
            return _fail(shared, exec_res, f"it was ended after {prep_res.timeout:g} s", "timeout")
        if exec_res.exit_code and prep_res.check:
            return _fail(shared, exec_res, _ended(exec_res.exit_code), "error")
        return "default"


def _command(command: Any) -> tuple[list[str], Mapping[str, str]]:
    if isinstance(command, Mapping):  # a `ShellLine`
        return [_SHELL, "-c", command["line"]], command["variables"]
    if isinstance(command, str) and command.strip():
        return [_SHELL, "-c", command], {}
    if isinstance(command, (list, tuple)) and command:
        return [as_text(word) for word in command], {}
    raise PflowError("parameter command is empty", suggestions=("Give a line or a list of arguments",))


def _seconds(timeout: float) -> float:
    if timeout <= 0:
        message = f"parameter timeout must be more than 0 seconds, got {timeout:g}"
        raise PflowError(message, ran="not ran")
    return min(timeout, _LONGEST)


def _fail(shared: MutableMapping[str, Any], finished: Finished, reason: str, action: str) -> str:
    stderr = finished.stderr.strip()
    tail = stderr if len(stderr) <= _TAIL else f"...{stderr[-_TAIL:]}"
    message = f"{reason}: {tail}" if tail else reason
    details = {"exit_code": finished.exit_code, "stderr": tail}
    shared["error"] = message
    shared["__error__"] = PflowError(message, details=details, ran="ran")
    return action


def _ended(code: int) -> str:
    return (
        f"the command was ended by signal {-code}" if code < 0 else f"the command ended with exit code {code}"
    )


def _not_started(job: _Job, error: OSError | ValueError) -> PflowError:
    program = job.arguments[0]
    if isinstance(error, FileNotFoundError) and error.filename == program:
        message = f"Command not found: {program}"
    elif isinstance(error, OSError):
        message = f"{program} cannot be started: {error.strerror or error}" + (
            f" ({error.filename})" if error.filename else ""
        )
    else:
        message = f"{program} cannot be started: {error}"
    return PflowError(message, details={"command": program}, ran="not ran")
