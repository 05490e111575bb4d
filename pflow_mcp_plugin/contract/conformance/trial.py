"""The host on trial in a conformance check, and the assertions that several checks share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import wraps
from inspect import isfunction
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import attrs

from pflow_mcp_plugin.contract.hosts import Host
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.contract.problems import PflowError
from pflow_mcp_plugin.contract.run_requests import Outcome
from pflow_mcp_plugin.contract.runners import Runner


class Subject(Protocol):
    """An open host on trial, as the conformance checks use it."""

    host: Host

    def warnings(self) -> str:
        """Return all warnings that the host on trial has shown to the user so far."""
        ...

    def command(self, words: Sequence[str]) -> tuple[int, Mapping[str, Any]]:
        """Run a command line of the host on trial with `--json`; return the exit code and the envelope."""
        ...


Open = Callable[[Mapping[str, object], Path], AbstractContextManager[Subject]]
"""Opens the host on trial with these plugins, by name and in this order, and folders below the given one."""


@attrs.frozen
class Trial:
    """The trial of a host in one conformance check: how to open it, and in which folder.

    Attributes:
        opener: Opens the host.
        home: An empty folder, the host's own for this check.
    """

    opener: Open
    home: Path

    def open(self, **plugins: object) -> AbstractContextManager[Subject]:
        """Open the host on trial with these plugins, in this order."""
        return self.opener(plugins, self.home)


Check = Callable[[Trial], None]


def checks_in(module: ModuleType) -> tuple[Check, ...]:
    """Return a module's conformance checks, each for a host on trial: its public functions, in their order.

    One that runs something passes for a host without a runner.
    """
    own = [it for it in vars(module).values() if isfunction(it) and it.__module__ == module.__name__]
    return tuple(_unless_without_runner(it) for it in own if not it.__name__.startswith("_"))


def _unless_without_runner(check: Check) -> Check:

    @wraps(check)
    def checked(trial: Trial) -> None:
        with suppress(WithoutRunner):
            check(trial)

    return checked


def node(node_id: str = "one", node_type: str = "poem-recite", **params: JSON) -> dict[str, JSON]:
    """Return a node of a workflow for the host on trial."""
    return {"id": node_id, "type": node_type, "params": params}


class WithoutRunner(Exception):
    """Ends a conformance check that runs something, for a host that has no runner."""


def runner_of(subject: Subject) -> Runner:
    """Return the runner of the host on trial; raise `WithoutRunner` if it has none."""
    if subject.host.runner is None:
        raise WithoutRunner
    return subject.host.runner


def run_nodes(subject: Subject, *nodes: JSONObject, **inputs: object) -> Outcome:
    """Run a workflow of these nodes in the host on trial; its inputs may have any type."""
    declared = {name: {"type": "any"} for name in inputs}
    return runner_of(subject).run({"nodes": list(nodes), "inputs": declared}, inputs, name="conformance")


def refusal(subject: Subject, *nodes: JSONObject) -> PflowError:
    """Assert that the host on trial refuses a workflow before anything has run; return the error."""
    return raised(lambda: run_nodes(subject, *nodes))


def raised(call: Callable[[], object]) -> PflowError:
    """Assert that a call of the host on trial raises what it should; return the error."""
    try:
        returned = call()
    except PflowError as error:
        return error
    raise AssertionError(f"there should have been an error, not {returned}")


def assert_named(text: str, *names: str) -> None:
    """Assert that what the host on trial says names each of these."""
    for name in names:
        assert name in text, f"{name!r} is not named in {text!r}"
