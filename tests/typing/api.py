"""The public types, used as the author of a plugin would; mypy reads this, nothing runs it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, assert_type

import pluggy
from mcp.server import MCPServer

from pflow_mcp_plugin.contract import (
    JSON,
    Command,
    CommandLike,
    Discovery,
    Entry,
    Field,
    Host,
    Interface,
    JSONObject,
    Library,
    LockCheck,
    Node,
    NodeOutcome,
    NodeRef,
    NodeSource,
    Outcome,
    PflowError,
    Problem,
    Report,
    Run,
    RunControl,
    Runner,
    RunOrigin,
    SavedWorkflow,
    Settings,
    Traces,
    ValuePath,
    hookimpl,
)
from pflow_mcp_plugin.exchange import CallResult, ToolCall
from pflow_mcp_plugin.server import as_tool
from pflow_mcp_plugin.testing import (
    FakeServer,
    PflowHost,
    ToolAnswers,
    ToolFailure,
    assert_preset_starts,
    read_tools,
)
from pflow_mcp_plugin.types import PresetInput, Server, ServerPreset
from pflow_mcp_plugin.workflows import NOT_DONE, done, resume, run_workflow


class Loud:
    """A node, without pocketflow."""

    def set_params(self, params: Mapping[str, Any]) -> None:
        self._params = dict(params)

    def run(self, shared: MutableMapping[str, Any]) -> str | None:
        run: Run = shared["__run__"]
        run.annotate("loud", {"volume": self._params["__volume__"]})
        shared["shouted"] = str(self._params["text"]).upper()
        return None


class Shouts(NodeSource):
    """A source of one node."""

    name = "shouts"
    prefixes = ("shout-",)

    def fingerprint(self) -> str:
        return "1"

    def get(self, node_type: str) -> Entry | None:
        return next((entry for entry in self.entries() if entry.node == node_type), None)

    def entries(self) -> Iterator[Entry]:
        interface = Interface(
            params=(Field(key="text", type="str", required=True),), outputs=(Field(key="shouted"),)
        )
        yield Entry(node="shout-loud", class_name="Loud", module=__name__, interface=interface)

    def missing(self, node_type: str) -> Problem | None:
        return Problem(message=f"No shout {node_type}", suggestion="Use shout-loud")

    def upgrade(self, node: JSONObject) -> JSONObject | None:
        params = node.get("params")
        if node["type"] != "yell-loud" or not isinstance(params, Mapping):
            return None
        return {**node, "type": "shout-loud", "params": {**params, "volume": 11}}


class Shout:
    """A command, without click."""

    def main(self, args: Iterable[str], prog_name: str, *, standalone_mode: bool, **extra: Any) -> Report:
        host: Host = extra["obj"]
        if host.api < (1, 0):
            raise PflowError("This host is too old to shout", kind="config", suggestions=("Upgrade it",))
        return Report(data=list(args), text=" ".join(args).upper())


ORDER = {
    "nodes": [{"id": "order", "type": "shout-loud", "params": {"text": "tea", "volume": 11, "to": ["me"]}}]
}

node: Node = Loud()
source: NodeSource = Shouts()
command: CommandLike = Shout()


@hookimpl
def pflow_addhooks(manager: pluggy.PluginManager) -> None:
    manager.check_pending()


@hookimpl
def pflow_register_nodes(host: Host) -> Iterable[NodeSource]:
    return [Shouts()]


@hookimpl
def pflow_register_commands(host: Host) -> Iterable[Command]:
    return [Command(path=("shout",), help="Say it loudly.", load=f"{__name__}:command")]


@hookimpl
def pflow_inject_params(node: NodeRef) -> Mapping[str, object] | None:
    quiet = node.host.settings is not None and node.host.settings.get("QUIET")
    return {"__volume__": 1 if quiet else 11} if node.type.startswith("shout-") else None


@hookimpl
def pflow_check_lock(check: LockCheck) -> Iterable[Problem]:
    beside = check.folder is not None and (check.folder / "shout.lock").exists()
    for node in check.nodes:
        if node.entry.source == "shouts" and not beside:
            yield Problem(message=f"Node {node.id} is not locked", suggestion="Write shout.lock")


@hookimpl
def pflow_run_context(run: Run) -> AbstractContextManager[object] | None:
    return microphone(run)


@contextmanager
def microphone(run: Run) -> Iterator[None]:
    run.add_secrets(["hush"])
    run.resources["microphone"] = "on"
    yield


def use(host: Host) -> None:
    if host.runner is None:
        return
    outcome = host.runner.run({"nodes": [{"id": "loud", "type": "shout-loud"}]}, {})
    assert_type(outcome, Outcome)
    assert_type(outcome.error, PflowError | None)
    assert_type(host.registry.get("shout-loud").interface.params, tuple[Field, ...])
    for entry, score in host.registry.search("loud"):
        assert_type(entry, Entry)
        assert_type(score, float)
    assert_type(host.registry.discover("greet somebody", limit=3), Discovery[Entry])


def values() -> None:
    server = Server(name="time", command="mcp-server-time", args=("--local-timezone=UTC",))
    assert_type(server.env, Mapping[str, str])
    assert_type(ToolCall(server="time", tool="get_current_time").arguments, JSONObject)
    assert_type(CallResult().structured, JSON)


@hookimpl
def pflow_mcp_presets(host: Host) -> Iterable[ServerPreset]:
    token = PresetInput(name="ACME_TOKEN", description="Token of your account", secret=True)
    preset = ServerPreset(
        name="acme",
        title="Acme",
        description="Search and file tickets",
        command="uvx",
        args=("acme-mcp@1.4.2",),
        env={"ACME_TOKEN": "${ACME_TOKEN}"},
        inputs=(token,),
        tools=("search_*",),
        call_timeout=90,
    )
    assert_type(preset.packages, tuple[str, ...])
    assert_type(preset.call_timeout, float | None)
    yield preset


def search(words: str) -> list[str]:
    return [words]


def test_a_workflow(pflow_host: PflowHost) -> None:
    assert_type(assert_preset_starts("acme", {"project": "DEMO"}, host=pflow_host), tuple[str, ...])
    assert_type(pflow_host.serve("fake", [search]), FakeServer)
    answers = pflow_host.stub("tickets", [search, *read_tools("tools.json"), {"name": "close"}])
    assert_type(answers, ToolAnswers)
    answers.give("search", ToolFailure("429"), {"hits": 3}, lambda words: words)
    assert_type(answers.arguments("search"), list[JSONObject])
    assert_type(pflow_host.run("triage.json", {"words": "login"}), Outcome)
    assert_type(pflow_host.run(ORDER), Outcome)


def build_server() -> MCPServer:
    tool = as_tool(ORDER, name="mine", description="Does my work")
    assert_type(tool.name, str)
    return MCPServer("mine", tools=[tool, as_tool("saved")])


def keep(runner: Runner, settings: Settings, library: Library, traces: Traces) -> None:
    saved: SavedWorkflow = library.save("greet", {"nodes": [{"id": "echo"}]}, "Says hello")
    outcome = runner.run(library.get(saved.name, saved.version), {}, name=saved.name, trace=True)
    if outcome.trace_path is not None:
        traces.read(traces.find(outcome.run_id))
    settings.set("TOKEN", "x")
    if settings.get("TOKEN") and "TOKEN" in settings.names():
        settings.unset("TOKEN")
    library.delete(library.describe("greet").name)


def go_on() -> Outcome:
    assert_type(run_workflow("greet", {"name": "Ann"}).outputs, Mapping[str, Any])
    try:
        run_workflow(ORDER)
    except PflowError as error:
        return resume(error.details["run_id"])
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
