"""The node `python`."""

from __future__ import annotations

import json
import shutil
import signal
import sys
from collections.abc import MutableMapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import pocketflow

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.nodes import python_driver
from pflow_mcp_plugin.host.nodes.child_processes import CHANNEL, ChildCommand, CommandOutput
from pflow_mcp_plugin.host.nodes.own_nodes import misnamed, unnamable
from pflow_mcp_plugin.host.nodes.value_nodes import positive
from pflow_mcp_plugin.host.workflow.templates import as_text
from pflow_mcp_plugin.processes.missing_programs import where_to_get
from pflow_mcp_plugin.processes.process_group import child_environment
from pflow_mcp_plugin.terminal.looks import abbreviated

TIMEOUT = 60.0
"""Seconds, if the workflow does not set a timeout."""
MEMORY = 1024.0
"""MiB of each process, if the workflow does not set `memory_mb`."""
MOST_OUTPUT = 256.0
"""MiB of each output stream and of the result, if the workflow does not set `max_output_mb`."""
_LONGEST = 1_000
"""Characters of a reason."""
_OUT_OF_MEMORY = {-signal.SIGKILL, -signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS}
"""How programs end that run out of memory."""


_Reports = dict[str, Any]
"""The report of the code's process, by the keys of `python_driver`; `exit` is None if unknown."""


class Python(pocketflow.Node):
    """The node `python` runs code in a process of its own; what it starts ends with it.

    `code` is read from the params only: a value that happens to be in the shared store is never run.
    """

    def prep(self, shared: MutableMapping[str, Any]) -> tuple[ChildCommand, Any]:
        code, inputs = self.params.get("code"), self.params.get("inputs") or {}
        if not isinstance(code, str) or not code.strip():
            steps = ("Write the code in params",)
            raise PflowError("parameter code is empty", suggestions=steps, ran="not ran")
        given = self.params.get("env") or {}
        if fault := next(chain(misnamed(inputs), unnamable(given)), ""):
            raise PflowError(fault, suggestions=("Rename it",), ran="not ran")
        env = child_environment({key: as_text(it) for key, it in given.items()}, "")
        most = int(positive(self.params, "max_output_mb", MOST_OUTPUT, "MiB") * (1 << 20))
        try:
            # Without `ensure_ascii` a lone surrogate could not be sent.
            task = json.dumps({"code": code, "inputs": inputs}, default=str)
        except (TypeError, ValueError, RecursionError) as error:
            raise PflowError(f"parameter inputs is not JSON: {error}", ran="not ran") from error
        command = ChildCommand(
            arguments=[*self._interpreter(env), python_driver.__file__, CHANNEL, str(self._memory)],
            env=env,
            cwd=self.params.get("cwd"),
            stdin=task.encode(),
            timeout=positive(self.params, "timeout", TIMEOUT, "seconds"),
            stdout=CommandOutput("stdout", most),
            stderr=CommandOutput("stderr", most),
            channel=CommandOutput("result", most),
        )
        return command, shared.get("__run__")

    def _interpreter(self, env: dict[str, str]) -> list[str]:
        """Return the words that start the `python` node's interpreter, less what users and projects set."""
        own, plain = [sys.executable], ["-I", "-X", "utf8"]
        if not self._requirements:
            return own + plain
        beside = str(Path(sys.executable).parent)
        uv = shutil.which("uv", path=env.get("PATH")) or shutil.which("uv", path=beside)
        if uv is None:
            message, steps = "requirements need the program uv", (where_to_get("uv"),)
            raise PflowError(message, kind="config", suggestions=steps, ran="not ran")
        packages = [f"--with={requirement}" for requirement in self._requirements]
        return [uv, "run", "-q", "--no-project", *packages, "--python", *own, "python", *plain]

    @property
    def _requirements(self) -> list[str]:
        return [as_text(requirement) for requirement in self.params.get("requirements") or ()]

    def exec(self, prep_res: tuple[ChildCommand, Any]) -> tuple[_Reports, bool]:
        command, run = prep_res
        try:
            exit_code, in_time = command.run(run)
        except (OSError, ValueError) as error:
            file = getattr(error, "filename", None)
            where = f" ({abbreviated(str(file), 100)})" if file else ""
            reason = (isinstance(error, OSError) and error.strerror) or str(error)
            steps = ("Check cwd",) if file and file == command.cwd else ()
            message = f"Python cannot be started: {reason}{where}"
            raise PflowError(message, suggestions=steps, ran="not ran") from error
        reports: _Reports = {}
        assert command.channel is not None  # noqa: S101  # `prep` created it
        with suppress(ValueError, TypeError, RecursionError):  # the code may have written to it
            for line in command.channel.text().splitlines():
                reports |= json.loads(line)
        uv_failed = self._requirements and exit_code > 0 and "exit" not in reports
        reports.setdefault("exit", None if uv_failed else exit_code)
        return reports, in_time

    def post(
        self,
        shared: MutableMapping[str, Any],
        prep_res: tuple[ChildCommand, Any],
        exec_res: tuple[_Reports, bool],
    ) -> str:
        command, run = prep_res
        redact = run.redactor.text if run else str
        reports, in_time = exec_res
        shared["result"] = reports.get("result")
        node = self.params.get("__node_id__", "")
        shared["stdout"] = command.stdout.text(node, run)
        shared["stderr"] = command.stderr.text(node, run)
        tail = command.stderr.end(redact)[-2 * _LONGEST :]
        failure = self._failure(reports, command.cut_short("the code", in_time=in_time), tail)
        shared["error"] = None if failure is None else redact(failure.message)
        if failure is None:
            return "default"
        failure.message = abbreviated(redact(failure.message), _LONGEST)
        shared["__error__"] = failure
        return failure.action

    def _failure(self, reports: _Reports, cut_short: tuple[str, str, str], tail: str) -> PflowError | None:
        """Return the error of the code in a `python` node, None if it succeeded; `tail` ends its stderr."""
        failed, exit_code = reports.get("failed") or {}, reports["exit"]
        details: dict[str, object] = {"exit_code": exit_code, "stderr": tail}
        reason, action, step = cut_short
        if not reason and exit_code is None:
            uv = ("Correct requirements; uv must be able to find and install each of them",)
            message = f"uv cannot run the code: {tail}"
            return PflowError(message, details=details, suggestions=uv, ran="not ran")
        if not reason and failed:
            details |= {key: failed[key] for key in ("type", "line") if failed.get(key)}
            reason, step = self._reported(failed)
        elif not reason:  # the process itself reported none
            code = exit_code or 0
            if code < 0:
                hint = f"If it ran out of memory, raise memory_mb ({self._memory:g} MiB)"
                reason, step = f"the code was ended by signal {-code}", hint if code in _OUT_OF_MEMORY else ""
            elif code or "result" not in reports:
                more = "" if "result" in reports else ", before its result was there"
                reason = f"the code ended with exit code {code}{more}"
        if not reason:
            return None
        steps = (step,) if step else ()
        return PflowError(reason, details=details, suggestions=steps, action=action, ran="ran")

    @property
    def _memory(self) -> float:
        return positive(self.params, "memory_mb", MEMORY, "MiB")

    def _reported(self, failed: dict[str, Any]) -> tuple[str, str]:
        """Return the reason that a `python` node's code reported for its failure, and what to do."""
        kind, message, name = failed.get("type"), str(failed.get("message")), failed.get("name")
        line = f"line {failed['line']} of the code: " if failed.get("line") else ""
        if kind == "MemoryError":
            reason = f"it needs more memory than memory_mb allows ({self._memory:g} MiB)"
            return f"{line}{reason}", "Raise memory_mb, or work on smaller parts of the data"
        step = ""
        if kind == "ModuleNotFoundError" and name:
            package = str(name).partition(".")[0]
            step = f"Add the package that has {package} to requirements, or install it for {sys.executable}"
        elif kind == "NameError" and name:
            step = f"If {name} is a value of the workflow, pass it in inputs"
        elif kind == "result":
            step = "Convert it, for example with str(), list() or dict()"
        return f"{line}{message}", step
