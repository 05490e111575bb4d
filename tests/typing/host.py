"""The embedded host fits the contract; mypy reads this, nothing runs it."""

from __future__ import annotations

from pflow_mcp_plugin.contract import (
    Discovery,
    Entry,
    Host,
    Library,
    Registry,
    Runner,
    SavedWorkflow,
    Settings,
    Traces,
)
from pflow_mcp_plugin.host.embedded_host import EmbeddedHost


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
    return registry.discover("greet somebody", limit=3)
