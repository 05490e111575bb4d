"""A fake server: started as a program, spoken to by the real client, answered in this process."""

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs
import pytest

from pflow_mcp_plugin.client import Pool
from pflow_mcp_plugin.errors import CallFailed, ConnectionFailed
from pflow_mcp_plugin.exchange import CallResult, Launch, ToolCall
from pflow_mcp_plugin.testing import FakeServer, ToolFailure
from pflow_mcp_plugin.types import Server, Tool

DECLARED = Tool(
    name="plain",
    description="As declared",
    title="Plain",
    input_schema={"type": "object"},
    output_schema={"type": "object", "properties": {}},
    annotations={"readOnlyHint": True},
    meta={"example.com/a": 1},
)


def shout(text: str, times: int = 1) -> dict[str, str]:
    """Say it loud."""
    if times > 9:
        raise ToolFailure("that is too loud")
    return {"said": text.upper() * times}


def crash() -> str:
    """Crash."""
    raise RuntimeError("a mistake in the test")


@pytest.fixture
def server():
    with FakeServer([shout, crash, DECLARED], name="fake", version="2.1") as server:
        yield server


@pytest.fixture
def pool(no_leftovers):
    with Pool(warn=pytest.fail) as pool:
        yield pool


def launch(server):
    return Launch(server=Server(name="fake", command=server.table["command"], args=(*server.table["args"],)))


def call(tool, **arguments):
    return ToolCall(server="fake", tool=tool, arguments=arguments)


def test_its_tools_are_listed_with_the_schemas_of_their_annotations(server, pool):
    listing = pool.list_tools(launch(server))
    assert (listing.info.name, listing.info.version) == ("fake", "2.1")
    said, _, plain = listing.tools
    assert (said.name, said.description) == ("shout", "Say it loud.")
    assert said.input_schema["required"] == ["text"]
    assert said.input_schema["properties"]["times"]["type"] == "integer"
    assert said.output_schema["type"] == "object"
    assert attrs.evolve(plain, hash="") == DECLARED


def test_a_call_runs_the_function_in_the_test_or_takes_the_answer_that_is_given(server, pool):
    ready = launch(server)
    assert pool.call(ready, call("shout", text="ho", times=2)).structured == {"said": "HOHO"}
    assert server.answers.arguments("shout") == [{"text": "ho", "times": 2}]
    server.answers.give("shout", {"then": 2})
    assert pool.call(ready, call("shout", text="a")).structured == {"then": 2}
    answer = CallResult(
        content=({"type": "text", "text": "x"},),
        structured={},
        has_structured=True,
        meta={"example.com/b": 2},
    )
    server.answers.give("plain", answer)
    result = pool.call(ready, call("plain"))
    assert (result.content, result.structured) == (answer.content, answer.structured)
    assert result.meta.items() >= answer.meta.items()


def test_a_failure_or_a_crash_of_a_function_is_reported_by_the_tool(server, pool):
    for failing, said in (
        (call("shout", text="a", times=10), "that is too loud"),
        (call("crash"), "RuntimeError: a mistake in the test"),
    ):
        result = pool.call(launch(server), failing)
        assert result.is_error
        assert said in result.content[0]["text"]
    server.answers.give("plain", RuntimeError("out of order"))
    with pytest.raises(CallFailed, match="out of order"):
        pool.call(launch(server), call("plain"))


def test_every_client_has_a_session_of_its_own(server, pool):
    with Pool(warn=pytest.fail) as other, ThreadPoolExecutor() as threads:
        ready = launch(server)
        calls = [threads.submit(each.call, ready, call("shout", text="a")) for each in (pool, other) * 5]
        assert {done.result().structured["said"] for done in calls} == {"A"}
    assert server.answers.count("shout") == 10


def test_it_is_a_table_for_the_config_of_any_client(server):
    command = [server.table["command"], *server.table["args"]]
    request = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    done = subprocess.run(
        command,
        input=json.dumps(request) + "\n",
        capture_output=True,
        encoding="utf-8",
        timeout=30,
        check=True,
    )
    assert json.loads(done.stdout)["id"] == 1


def test_a_closed_server_cannot_be_started_and_says_so(server):
    server.close()
    server.close()
    command = [server.table["command"], *server.table["args"]]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=30, check=False)
    assert done.returncode == 1
    assert "The fake server was closed" in done.stderr
    assert not Path(server.table["args"][-1]).parent.exists()


def test_closing_ends_the_sessions_of_clients(server, no_leftovers):
    ready = launch(server)
    # Whether the end is noticed before the call or by it is a matter of time.
    with Pool(lambda warning: None) as pool:
        pool.list_tools(ready)
        server.close()
        with pytest.raises((CallFailed, ConnectionFailed)):
            pool.call(ready, call("plain"))
