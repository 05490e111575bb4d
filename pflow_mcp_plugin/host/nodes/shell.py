"""The node `shell`."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, MutableMapping
from contextlib import AbstractContextManager, nullcontext
from itertools import chain, repeat
from typing import Any

import attrs
import pocketflow

from pflow_mcp_plugin.argument_sizes import too_long
from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.nodes.child_processes import (
    RESOURCE,
    ChildCommand,
    CommandOutput,
    Finished,
    Processes,
)
from pflow_mcp_plugin.host.nodes.node_arguments import argument, positive
from pflow_mcp_plugin.host.workflow.coercion import any_json_in, lines_of
from pflow_mcp_plugin.host.workflow.findings import cut
from pflow_mcp_plugin.host.workflow.templates import TemplateReference, as_text, lone, parse

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


@attrs.frozen(kw_only=True)
class _Job:
    command: ChildCommand
    check: bool
    written: Mapping[str, Any]
    processes: AbstractContextManager[Processes]


class Shell(pocketflow.Node):
    """The node `shell` runs a command: a list of arguments, without a shell, or a shell line.

    `command` is read from the params only: a value that happens to be in the shared store is never
    run. What the command leaves running in the background ends with it.
    """

    def prep(self, shared: MutableMapping[str, Any]) -> _Job:
        """Return the command of a `shell` node and how to run it.

        Raises:
            PflowError: The command is empty, or the timeout or `max_output_mb` is not positive.
        """
        arguments, variables = _command(self.params.get("command"))
        env = {str(key): as_text(value) for key, value in self.params.get("env", {}).items()}
        run = shared.get("__run__")
        kept = run.resources.get(RESOURCE) if run else None
        most = int(positive(self.params, "max_output_mb", MOST_OUTPUT, "MiB") * (1 << 20))
        command = ChildCommand(
            arguments=arguments,
            env={**env, **variables},
            cwd=self.params.get("cwd"),
            stdin=as_text(argument(self.params, shared, "stdin", default="")),
            timeout=positive(self.params, "timeout", TIMEOUT, "seconds"),
            stdout=CommandOutput("stdout", most),
            stderr=CommandOutput("stderr", most),
        )
        nodes, own = run.workflow.nodes if run else (), self.params.get("__node_id__")
        return _Job(
            command=command,
            check=self.params.get("check", True),
            written=next((node.params for node in nodes if node.id == own), {}),
            processes=Processes() if kept is None else nullcontext(kept),
        )

    def exec(self, prep_res: _Job) -> Finished:
        """Run the command of a `shell` node.

        Raises:
            PflowError: It cannot be started, or its output cannot be written to a file.
        """
        try:
            with prep_res.processes as processes:
                return processes.run(prep_res.command)
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno == errno.E2BIG:
                strings = command_strings(self.params, prep_res.written)
                raise PflowError(
                    f"the command cannot be started: {too_long(strings)}",
                    suggestions=("Write the value to a file and pass the path, or pass the value as stdin",),
                    ran="not ran",
                ) from error
            raise _not_started(prep_res, error) from error

    def post(self, shared: MutableMapping[str, Any], prep_res: _Job, exec_res: Finished) -> str:
        """Write the outputs and the exit code, and return the action."""
        run = shared.get("__run__")
        redact = run.redactor.text if run else str
        command = prep_res.command
        shared["stdout"] = stdout = command.stdout.text()
        shared["stderr"] = stderr = command.stderr.text()
        shared["exit_code"] = exec_res.exit_code
        if len(stdout) <= _LONGEST_READ:
            shared["lines"] = lines_of(stdout)
            if (found := any_json_in(stdout)) is not None:
                shared["json"] = found
        end = redact(stderr[-_REDACTED:]).strip()
        failure = _failure(prep_res, exec_res, end if len(end) <= _TAIL else f"...{end[-_TAIL:]}")
        shared["error"] = None if failure is None else failure.message
        if failure is None:
            return "default"
        shared["__error__"] = failure
        return failure.action


def _command(command: object) -> tuple[list[str], Mapping[str, str]]:
    if isinstance(command, Mapping):  # a `ShellLine`
        return [_SHELL, "-c", command["line"]], command["variables"]
    if isinstance(command, str) and command.strip():
        return [_SHELL, "-c", command], {}
    if isinstance(command, (list, tuple)) and command:
        return [as_text(word) for word in command], {}
    raise PflowError("parameter command is empty", suggestions=("Give a line or a list of arguments",))


def _failure(job: _Job, finished: Finished, tail: str) -> PflowError | None:
    """Return the error of a command, None if it succeeded; `tail` is the end of its stderr."""
    action = "error"
    suggestions: tuple[str, ...] = ()
    flooded = next((stream for stream in (job.command.stdout, job.command.stderr) if stream.exceeded), None)
    if flooded:
        reason = f"it was ended, as its {flooded.name} is longer than {flooded.most / (1 << 20):g} MiB"
        suggestions = ("Let it write to a file of its own (> FILE), or raise max_output_mb",)
    elif finished.timed_out:
        reason, action = f"it was ended after {job.command.timeout:g} s", "timeout"
    elif finished.exit_code and job.check:
        code = finished.exit_code
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        reason = f"the command {how}"
    else:
        return None
    message = f"{reason}: {tail}" if tail else reason
    details = {"exit_code": finished.exit_code, "stderr": tail}
    return PflowError(message, details=details, suggestions=suggestions, action=action, ran="ran")


def _not_started(job: _Job, error: OSError | ValueError) -> PflowError:
    program = cut(job.command.arguments[0])
    if isinstance(error, FileNotFoundError) and error.filename == job.command.arguments[0]:
        message = f"Command not found: {program}"
    elif isinstance(error, OSError):
        message = f"{program} cannot be started: {error.strerror or error}" + (
            f" ({cut(str(error.filename))})" if error.filename else ""
        )
    else:
        message = f"{program} cannot be started: {error}"
    return PflowError(message, details={"command": program}, ran="not ran")


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
    return {
        "parameter command": _command_parts(params.get("command"), written.get("command")),
        "parameter env": variables,
        "the environment of pflow": inherited,
    }


def _command_parts(command: Any, raw: Any) -> dict[str, str]:
    if isinstance(command, Mapping):
        templates = (part.text for part in parse(raw or "") if isinstance(part, TemplateReference))
        values = zip(chain(templates, repeat("a template")), command["variables"].items(), strict=False)
        named = {f"the value of {text} in parameter command": "=".join(item) for text, item in values}
        return {"parameter command": command["line"], **named}
    if isinstance(command, str):
        return {"parameter command": command}
    words = raw if isinstance(raw, list) else repeat(raw)
    return {
        _named(f"command[{index}]", word): as_text(value)
        for index, (value, word) in enumerate(zip(command, words, strict=False))
    }


def _named(parameter: str, raw: Any) -> str:
    template = lone(raw)
    return f"parameter {parameter}" + (f" ({template.text})" if template else "")
