"""The node `shell`."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping, MutableMapping
from itertools import chain, repeat
from typing import Any

import pocketflow

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.nodes.child_processes import ChildCommand, CommandOutput
from pflow_mcp_plugin.host.nodes.own_nodes import unnamable
from pflow_mcp_plugin.host.nodes.value_nodes import argument, ended, positive, utf8, written_params
from pflow_mcp_plugin.host.workflow.coercion import lines_of
from pflow_mcp_plugin.host.workflow.findings import cut
from pflow_mcp_plugin.host.workflow.templates import TemplateReference, as_text, lone, parse
from pflow_mcp_plugin.host.workflow.workflow_reads import READS
from pflow_mcp_plugin.processes.system_calls import too_long
from pflow_mcp_plugin.storage.json_and_toml import strict_json

TIMEOUT = 300.0
"""Seconds, if the workflow does not set a timeout."""
MOST_OUTPUT = 256.0
"""MiB of each output stream, if the workflow does not set `max_output_mb`."""
_SHELL = "/bin/sh"
_LONGEST_READ = 8 << 20
"""The most characters of stdout that are read as lines and JSON, which take many times the text's memory."""
_TAIL = 2_000


class Shell(pocketflow.Node):
    """The node `shell` runs a command: a list of arguments, without a shell, or a shell line.

    `command` is read from the params only: a value that happens to be in the shared store is never
    run. What the command leaves running in the background ends with it.
    """

    def prep(self, shared: MutableMapping[str, Any]) -> tuple[ChildCommand, Any]:
        command, variables = self.params.get("command"), {}
        if isinstance(command, Mapping):  # a line with variables, from `bind_line`
            arguments, variables = [_SHELL, "-c", command["line"]], command["variables"]
        elif isinstance(command, str) and command.strip():
            arguments = [_SHELL, "-c", command]
        elif isinstance(command, (list, tuple)) and command:
            arguments = [as_text(word) for word in command]
        else:
            steps = ("Give a line or a list of arguments",)
            raise PflowError("parameter command is empty", suggestions=steps, ran="not ran")
        env = {str(key): as_text(value) for key, value in self.params.get("env", {}).items()}
        if fault := next(unnamable(env), ""):
            raise PflowError(fault, suggestions=("Rename it",), ran="not ran")
        most = int(positive(self.params, "max_output_mb", MOST_OUTPUT, "MiB") * (1 << 20))
        if "memory_mb" in self.params:
            limit = int(positive(self.params, "memory_mb", 0.0, "MiB") * 1024)
            arguments = [_SHELL, "-c", 'ulimit -v "$0" && exec "$@"', str(limit), *arguments]
        stdin = as_text(argument(self.params, shared, "stdin", default=""))
        made = ChildCommand(
            arguments=arguments,
            env={**os.environ, **env, **variables},  # the line refers to these variables, whatever `env` says
            cwd=self.params.get("cwd"),
            stdin=utf8(stdin, "stdin", "surrogateescape"),
            timeout=positive(self.params, "timeout", TIMEOUT, "seconds"),
            stdout=CommandOutput("stdout", most),
            stderr=CommandOutput("stderr", most),
        )
        return made, shared.get("__run__")

    def exec(self, prep_res: tuple[ChildCommand, Any]) -> tuple[int, bool]:
        command, run = prep_res
        try:
            return command.run(run)
        except (OSError, ValueError) as error:
            program = command.arguments[0]
            shown = cut(program)
            steps: tuple[str, ...] = ()
            if isinstance(error, OSError) and error.errno == errno.E2BIG:
                strings = command_strings(self.params, written_params(self.params, run))
                message = f"the command cannot be started: {too_long(strings)}"
                steps = ("Write the value to a file and pass the path, or pass the value as stdin",)
            elif isinstance(error, FileNotFoundError) and error.filename == program:
                message = f"Command not found: {shown}"
            elif isinstance(error, OSError):
                file = f" ({cut(str(error.filename))})" if error.filename else ""
                message = f"{shown} cannot be started: {error.strerror or error}{file}"
                steps = ("Check cwd",) if command.cwd and error.filename == command.cwd else ()
            else:
                message = f"{shown} cannot be started: {error}"
            details = {"command": shown}
            raise PflowError(message, details=details, suggestions=steps, ran="not ran") from error

    def post(
        self,
        shared: MutableMapping[str, Any],
        prep_res: tuple[ChildCommand, Any],
        exec_res: tuple[int, bool],
    ) -> str:
        command, run = prep_res
        exit_code, in_time = exec_res
        redact = run.redactor.text if run else str
        node = self.params.get("__node_id__", "")
        shared["stdout"] = stdout = command.stdout.text(node, run)
        shared["stderr"] = command.stderr.text(node, run)
        shared["exit_code"] = exit_code
        unread = self._read(stdout, shared)
        reason, action, step = command.cut_short("it", in_time=in_time)
        if not reason and exit_code and self.params.get("check", True):
            how = (
                f"was ended by signal {-exit_code}" if exit_code < 0 else f"ended with exit code {exit_code}"
            )
            reason = f"the command {how}"
            step = "If it ran out of memory, raise memory_mb" if "memory_mb" in self.params else ""
        if not reason and unread:
            reason, step = unread, "Let that step read stdout, or change what the command writes"
        if not reason:
            return ended(shared, None)
        end = command.stderr.end(redact)
        tail = end if len(end) <= _TAIL else f"...{end[-_TAIL:]}"
        message = f"{reason}: {tail}" if tail else reason
        details = {"exit_code": exit_code, "stderr": tail}
        steps = (step,) if step else ()
        failure = PflowError(message, details=details, suggestions=steps, action=action, ran="ran")
        return ended(shared, failure)

    def _read(self, stdout: str, shared: MutableMapping[str, Any]) -> str:
        """Set the outputs `lines` and `json`; return why there is none of those that a later step reads."""
        read = {path[0] for path in self.params.get(READS, ()) if path} & {"lines", "json"}
        if len(stdout) > _LONGEST_READ:
            reason = "its stdout is longer than 8 MiB, so a later step cannot read its "
            return reason + " and ".join(sorted(read)) if read else ""
        shared["lines"] = lines_of(stdout)
        try:
            shared["json"] = strict_json(stdout)
        except json.JSONDecodeError:
            pass
        except (ValueError, RecursionError) as error:  # parsing loses something; too deep
            if "json" in read:
                return f"its stdout cannot be read as JSON, as a later step does: {error}"
        return ""


def command_strings(params: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the strings that the command of a `shell` node starts with, by names for messages, in groups."""
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
