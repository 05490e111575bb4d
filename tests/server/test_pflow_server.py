"""What a conversation offers beyond single calls: lists, wrong calls, progress, cancellation, isolation."""

import sys
import threading
from functools import partial
from types import SimpleNamespace

import anyio
import pytest
import real_servers

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.server import ALL_TOOLS, Claims, ServedTool
from pflow_mcp_plugin.server.envelopes import output_schema, success
from pflow_mcp_plugin.server.pflow_server import WorkerThreads
from pflow_mcp_plugin.server.served_tool import library_of, runner_of, settings_of, traces_of

HELLO = {"nodes": [{"id": "a", "type": "echo", "params": {"message": "hi"}}]}
TYPED = {"command": sys.executable, "args": [str(real_servers.HERE / "typed_server.py")]}


def tool(name, answer, **more):
    """A tool that answers as a function does."""
    return ServedTool(
        name=name,
        title=name,
        description=name,
        input_schema={"type": "object", "properties": {}, "additionalProperties": False},
        output_schema=output_schema({}),
        claims=Claims(read_only=False, destructive=True, idempotent=False, open_world=True),
        answer=answer,
        **more,
    )


def test_the_server_and_its_tools_explain_themselves(either):
    async def conversation(client):
        assert (client.server_info.name, client.server_info.title) == ("pflow", "pflow")
        assert client.server_info.version
        assert "workflow_discover" in client.instructions
        return (await client.list_tools()).tools

    listed = either.talk(conversation)
    schemas = {each.name: each.input_schema for each in listed}
    assert all(each.title and len(each.description) > 60 and each.output_schema for each in listed)
    assert schemas["workflow_execute"]["properties"]["workflow"]["type"] == ["string", "object"]
    assert schemas["registry_discover"]["properties"]["full"]["default"] is False


def test_the_claims_of_the_tools_are_true(served):
    claims = {each.name: each.claims for each in ALL_TOOLS}
    changing = {"registry_run", "workflow_execute", "workflow_save", "settings_set"}
    assert {name for name, claim in claims.items() if not claim.read_only} == changing
    assert {name for name, claim in claims.items() if claim.destructive} == changing - {"workflow_save"}
    # What runs may be anything.
    running = {"registry_run", "workflow_execute"}
    asking_a_model = {"registry_discover", "workflow_discover"}
    assert {name for name, claim in claims.items() if claim.open_world} == running | asking_a_model
    assert {name for name, claim in claims.items() if not (claim.idempotent or claim.read_only)} == running


@pytest.mark.parametrize(
    ("tool", "arguments", "path", "words"),
    [
        ("settings_get", {}, "$.key", "key is missing"),
        ("settings_get", {"key": 5}, "$.key", "key must be of type string, not integer"),
        ("settings_get", {"key": None}, "$.key", "key must be of type string, not null"),
        ("settings_get", {"key": "A", "kee": 1}, "$.kee", "there is no argument kee"),
        ("registry_describe", {"nodes": ["echo", 3]}, "$.nodes[1]", "must be of type string"),
    ],
)
def test_wrong_arguments_are_named_and_nothing_runs(served, tool, arguments, path, words):
    error = served.error(tool, **arguments)
    assert error["type"] == "validation"
    assert words in error["message"]
    assert error["details"]["problems"][0]["path"] == path
    assert ("Did you mean key?" in error["suggestions"]) is ("kee" in arguments)


@pytest.mark.parametrize(
    ("tool", "arguments", "hint"),
    [
        ("Workflow_Exec", {}, "Did you mean workflow_execute?"),
        ("weather", {}, "See tools/list"),
        ("settings_get", {"key": "GITHUB_TOKN"}, "Did you mean GITHUB_TOKEN?"),
        ("registry_run", {"node_type": "ecko"}, "echo"),
        ("workflow_execute", {"workflow": "greting"}, "greeting"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(either, tool, arguments, hint):
    either.data("settings_set", key="GITHUB_TOKEN", value="x")
    either.pflow.host.library.save("greeting", HELLO)
    error = either.error(tool, **arguments)
    assert error["type"] == "not_found"
    assert any(hint in suggestion for suggestion in error["suggestions"])


def test_a_tool_that_crashes_is_a_failure_without_a_traceback(either):
    def crash(_request, _arguments):
        raise ZeroDivisionError("by zero")

    either.tools = lambda: (tool("crash", crash), tool("leave", lambda *_: sys.exit(4)))
    error = either.error("crash")
    assert (error["type"], error["message"]) == ("execution", "crash failed: ZeroDivisionError: by zero")
    assert "SystemExit" in either.error("leave")["message"]
    assert "Traceback" not in str(error)


def test_tools_that_cannot_be_listed_are_an_error_of_the_protocol(served):
    def unreadable():
        raise PflowError("The library is unreadable", kind="config")

    async def conversation(client):
        for ask in (client.list_tools, partial(client.call_tool, "one")):
            with pytest.raises(Exception, match="The library is unreadable"):
                await ask()

    served.tools = unreadable
    served.talk(conversation)


NESTED: list[object] = []
for _ in range(5_000):
    NESTED = [NESTED]


@pytest.mark.parametrize(
    "value",
    [{1, 2}, 10**5_000, float("nan"), "\ud800", {"k": object}, {3: b"x"}, NESTED],
    ids=["set", "number", "nan", "surrogate", "class", "keys", "nested"],
)
def test_whatever_a_node_wrote_can_be_answered(either, value):
    either.tools = lambda: (tool("odd", lambda *_: success({"value": value})),)
    shown = either.data("odd")["value"]
    assert shown is not None
    assert value is not NESTED or "..." in str(shown)


def test_progress_grows_and_ends_before_the_answer(either):
    nodes = [{"id": f"n{number}", "type": "echo", "params": {"message": "x"}} for number in range(4)]
    seen = []

    async def conversation(client):
        async def progress(done, total, message):
            seen.append((done, total, message))

        arguments = {"workflow": {"nodes": nodes}}
        result = await client.call_tool("workflow_execute", arguments, progress_callback=progress)
        return either.envelope(result), list(seen)

    answer, at_the_answer = either.talk(conversation)
    assert answer["success"]
    numbers = [done for done, _, _ in seen]
    assert numbers == sorted(set(numbers))
    assert seen[-1][:2] == (4, 4)
    assert seen == at_the_answer


def test_a_cancelled_call_of_a_hanging_tool_ends_its_server(either, no_leftovers):
    either.pflow.add("typed", TYPED)
    either.pflow.sync()
    calling = {"node_type": "mcp-typed-slow", "parameters": {"seconds": 200}}
    reached = anyio.Event()

    async def conversation(client):
        async def progress(_done, _total, _message):
            reached.set()

        async def call():
            await client.call_tool("registry_run", calling, progress_callback=progress)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await reached.wait()
            tasks.cancel_scope.cancel()

    either.talk(conversation)


@pytest.mark.parametrize(
    ("name", "part_of"),
    [("runner", runner_of), ("library", library_of), ("settings", settings_of), ("traces", traces_of)],
)
def test_a_part_that_the_host_lacks_is_an_error_of_usage(name, part_of):
    with pytest.raises(PflowError, match=r"^This pflow ") as raised:
        part_of(SimpleNamespace(**{name: None}))
    assert raised.value.kind == "usage"


def test_answers_that_wait_for_each_other_all_get_a_thread_though_one_is_idle():
    threads = WorkerThreads()

    async def main():
        together = threading.Barrier(3)
        for _ in range(5):
            await threads.run(lambda: None, lambda: None, 0)
            async with anyio.create_task_group() as group:
                for _ in range(3):
                    group.start_soon(threads.run, lambda: together.wait(30), together.abort, 0)

    anyio.run(main)
