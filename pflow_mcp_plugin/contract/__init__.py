"""The contract between pflow core (the *host*) and its plugins.

A plugin author needs this package and nothing else from the host:

- `hookspecs`: the hooks a host calls; mark an implementation with `hookimpl`.
- `entries`: what a source of nodes has: `Entry`, `Interface`, `Field`, `Sketch`; what a host runs: `Node`;
  and `NodeUse`, by which a source judges the use of a node before a run.
- `hosts`: the handle on the host that a plugin receives: `Host`, with its `Paths`, `Settings` and `Traces`;
  what a plugin contributes to the command line: `Command`, `Report`; and `suggestions`, to its completion in
  shells: `Suggestion`.
  It leads to `runners`: `Runner`; `libraries`: `Library`, `SavedWorkflow`; and `registries`: `Registry`,
  with `NodeSource`, which a plugin contributes. `NetworkRules` says which hosts may be connected to.
- `runs`: what a plugin receives in a run: `Run`, `Workflow`, `NodeRef`; and before it: `LockCheck`.
- `run_requests`: what a program that starts a run gives it: `RunOptions`, `RunOrigin`, `RunControl`,
  `Keeper`; resumes one: `Decision`; how far it has come: `Progress`; and how it ended: `Outcome`; in
  `runners` that of a single node: `NodeOutcome` with `ValuePath`.
- `libraries`: also what a host finds for a task in words: `Discovery`, `Match`.
- `problems`: `Problem` (a finding) and `PflowError` (a failure), with their kinds and exit codes.
- `json_types`: `JSON` and `JSONObject`, the types of JSON values.
- `validators`: the validators of all these.
- `conformance`: checks that a host runs against itself; imported by its tests only.

It imports pluggy, attrs, typing and `terminal` only, and knows nothing of any plugin.
"""

from typing import TYPE_CHECKING

from pflow_mcp_plugin.contract.hookspecs import (
    ENTRY_POINT_GROUP,
    HOST_ENTRY_POINT_GROUP,
    PROJECT,
    hookimpl,
    hookspec,
)
from pflow_mcp_plugin.contract.hosts import (
    API,
    Command,
    CommandLike,
    Host,
    NetworkRules,
    Paths,
    Report,
    Settings,
    Traces,
)
from pflow_mcp_plugin.contract.problems import EXIT_CODES, Kind, PflowError, Problem, Ran

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract.entries import (
        FAILURES,
        UNKNOWN,
        Entry,
        Field,
        Interface,
        Node,
        NodeUse,
        Recipe,
        Sketch,
    )
    from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
    from pflow_mcp_plugin.contract.libraries import Discovery, Library, Match, SavedWorkflow
    from pflow_mcp_plugin.contract.registries import NodeSource, Registry
    from pflow_mcp_plugin.contract.run_requests import (
        THE_USER,
        Decision,
        Keeper,
        Outcome,
        Progress,
        RunControl,
        RunOptions,
        RunOrigin,
    )
    from pflow_mcp_plugin.contract.runners import NodeOutcome, Runner, ValuePath
    from pflow_mcp_plugin.contract.runs import LockCheck, NodeRef, Run, RunStep, Workflow
    from pflow_mcp_plugin.contract.suggestions import Suggestion
else:
    _LATER = {
        "entries": "FAILURES UNKNOWN Entry Field Interface Node NodeUse Recipe Sketch",
        "json_types": "JSON JSONObject",
        "libraries": "Discovery Library Match SavedWorkflow",
        "registries": "NodeSource Registry",
        "run_requests": "THE_USER Decision Keeper Outcome Progress RunControl RunOptions RunOrigin",
        "runners": "NodeOutcome Runner ValuePath",
        "runs": "LockCheck NodeRef Run RunStep Workflow",
        "suggestions": "Suggestion",
    }

    def __getattr__(name: str) -> object:
        """Return a class of the contract that few programs need: creating it would slow each start."""
        for module, names in _LATER.items():
            if name in names.split():
                from importlib import import_module

                return getattr(import_module(f"{__name__}.{module}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "API",
    "ENTRY_POINT_GROUP",
    "EXIT_CODES",
    "FAILURES",
    "HOST_ENTRY_POINT_GROUP",
    "JSON",
    "PROJECT",
    "THE_USER",
    "UNKNOWN",
    "Command",
    "CommandLike",
    "Decision",
    "Discovery",
    "Entry",
    "Field",
    "Host",
    "Interface",
    "JSONObject",
    "Keeper",
    "Kind",
    "Library",
    "LockCheck",
    "Match",
    "NetworkRules",
    "Node",
    "NodeOutcome",
    "NodeRef",
    "NodeSource",
    "NodeUse",
    "Outcome",
    "Paths",
    "PflowError",
    "Problem",
    "Progress",
    "Ran",
    "Recipe",
    "Registry",
    "Report",
    "Run",
    "RunControl",
    "RunOptions",
    "RunOrigin",
    "RunStep",
    "Runner",
    "SavedWorkflow",
    "Settings",
    "Sketch",
    "Suggestion",
    "Traces",
    "ValuePath",
    "Workflow",
    "hookimpl",
    "hookspec",
]
