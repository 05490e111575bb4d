"""The embedded host fits the contract; mypy reads this, nothing runs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_type

from pflow_mcp_plugin.contract import (
    Discovery,
    Entry,
    Host,
    JSONObject,
    Library,
    NodeOutcome,
    Outcome,
    Registry,
    RunControl,
    Runner,
    RunOrigin,
    SavedWorkflow,
    Settings,
    Traces,
    ValuePath,
)
from pflow_mcp_plugin.host.embedded_host import EmbeddedHost
from pflow_mcp_plugin.workflows import NOT_DONE, done, resume, run_workflow


def embedded(host: EmbeddedHost) -> Host:
    registry: Registry = host.registry
    runner: Runner = host.runner
    settings: Settings = host.settings
    library: Library = host.library
    traces: Traces = host.traces
    serve(registry, runner, settings, library, traces)
    return host


def serve(
    registry: Registry, runner: Runner, settings: Settings, library: Library, traces: Traces
) -> Discovery[Entry]:
    saved: SavedWorkflow = library.save("greet", {"nodes": [{"id": "echo"}]}, "Says hello")
    outcome = runner.run(library.get(saved.name, saved.version), {}, name=saved.name, trace=True)
    if outcome.trace_path is not None:
        traces.read(traces.find(outcome.run_id))
    settings.set("TOKEN", "x")
    if settings.get("TOKEN") and "TOKEN" in settings.names():
        settings.unset("TOKEN")
    library.delete(library.describe("greet").name)
    follow(runner)
    return registry.discover("greet somebody", limit=3)


def go_on() -> Outcome:
    assert_type(run_workflow("greet", {"name": "Ann"}).outputs, Mapping[str, Any])
    return resume("20261126-161305-eed34d14", decisions={"send[3]": done({"id": 7}), "mail": NOT_DONE})


def follow(runner: Runner) -> NodeOutcome:
    control = RunControl(lambda progress: print(progress.done, progress.total, progress.message))
    control.on_cancel(lambda: None)
    origin = RunOrigin(owner="ann", above=("outer",))
    workflow = runner.normalise(runner.read('{"nodes": []}', "wf.json"))
    assert_type(runner.run(workflow, {}, origin=origin, control=control).checkpoint, JSONObject)
    ran = runner.run_node("echo", {"message": 1}, origin=origin, control=control)
    assert_type(ran.structure, tuple[ValuePath, ...])
    return ran
