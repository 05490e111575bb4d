"""Watches what the package tells users while tests run: nothing of it may leave them without help.

A test plays a failure for its own sake, and says little of what every failure must have. So that is seen
here, for all failures that are made in the process of the tests.
"""

import functools
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pflow_mcp_plugin
from pflow_mcp_plugin.contract import PflowError, Problem
from pflow_mcp_plugin.errors import McpError
from pflow_mcp_plugin.host.embedded_host import EmbeddedHost

_PACKAGE = str(Path(pflow_mcp_plugin.__file__).parent)
_NOTHING_TO_DO = (
    "No more processes",
    "TOML cannot represent",
    "connections are closed",
    "has no server",
    "is closed",
    "is reached over stdio",
)
"""What stands in the messages of failures of servers after which there is nothing to do."""
_BEFORE_A_RUN = tuple(
    f"{_PACKAGE}/{folder}/"
    for folder in (
        "catalog",
        "cli",
        "config",
        "discovery",
        "presets",
        "storage",
        "trust",
        "host/cli",
        "host/completion",
        "host/planning",
        "host/registry",
    )
)
"""Where nothing is executed: a failure there says itself of which kind it is, which decides the exit code."""
_EXCEPT = tuple(
    f"{_PACKAGE}/{file}" for file in ("cli/lock.py", "host/cli/run_commands.py", "trust/tool_approval.py")
)
"""Where there are failures of runs, or findings about their nodes, too."""
_FINDINGS = tuple(folder for folder in _BEFORE_A_RUN if not folder.endswith(("/discovery/", "/planning/")))
"""Where a problem is no finding about a workflow or its nodes, as it is by default."""


def watch() -> list[str]:
    """Watch from now on; return the list that takes what is missing."""
    missing: list[str] = []
    told, made, failed, found = (
        EmbeddedHost.report,
        McpError.__init__,
        PflowError.__init__,
        Problem.__init__,
    )

    @functools.wraps(told)
    def report(self: EmbeddedHost, problem: Problem) -> None:
        if problem.severity != "warning" and _maker().startswith(_PACKAGE):
            missing.append(f"reported, but no warning: {problem.message}")
        told(self, problem)

    @functools.wraps(made)
    def init(self: McpError, *args: Any, **named: Any) -> None:
        made(self, *args, **named)
        if "kind" not in named and type(self) is McpError and _is_in(_BEFORE_A_RUN):
            missing.append(f"no kind: {self.message}")
        if not _says_what_to_do(self) and _maker().startswith(_PACKAGE):
            missing.append(f"no next step: {self.message}")

    @functools.wraps(failed)
    def fail(self: PflowError, *args: Any, **named: Any) -> None:
        failed(self, *args, **named)
        if "kind" not in named and type(self) is PflowError and _is_in(_BEFORE_A_RUN):
            missing.append(f"no kind: {self.message}")

    @functools.wraps(found)
    def find(self: Problem, **named: Any) -> None:
        found(self, **named)
        if "kind" not in named and _is_in(_FINDINGS):
            missing.append(f"no kind: {self.message}")

    PflowError.__init__ = fail  # type: ignore[method-assign]
    Problem.__init__ = find  # type: ignore[method-assign]
    EmbeddedHost.report = report  # type: ignore[method-assign]
    McpError.__init__ = init  # type: ignore[method-assign]
    return missing


def _says_what_to_do(error: PflowError) -> bool:
    steps = [*error.suggestions, *(problem.suggestion for problem in error.problems)]
    return any(steps) or any(each in error.message for each in _NOTHING_TO_DO)


def _is_in(folders: tuple[str, ...]) -> bool:
    maker = _maker(3)
    return maker.startswith(folders) and not maker.startswith(_EXCEPT)


def _maker(above: int = 2) -> str:
    """Return the file of the code that made a failure, the classes of failures left out."""
    frame: FrameType | None = sys._getframe(above)
    while frame and frame.f_code.co_name == "__init__":
        frame = frame.f_back
    return frame.f_code.co_filename if frame else ""
