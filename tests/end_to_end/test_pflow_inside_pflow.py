"""Workflows whose nodes are workflows of another pflow, with real processes."""

import json
import time

import pytest
from prepared_starts import PROGRAM
from served_pflow import TOKEN, serving

pytestmark = pytest.mark.slow

SAY = {
    "inputs": {"word": {"type": "str"}},
    "nodes": [{"id": "say", "type": "echo", "params": {"message": "${word}"}}],
}
QUICKLY = 20  # seconds on a busy machine; a circle that is followed to the deepest level takes longer


@pytest.fixture
def at(pflow, tmp_path):
    """Return pflow in a home of its own, by the home's name."""

    class Home:
        def __init__(self, name):
            self.folder = tmp_path / name

        def __call__(self, *arguments):
            return pflow(*arguments, env={"PFLOW_HOME": str(self.folder)})

        def save(self, name, workflow):
            path = tmp_path / "workflow.json"
            path.write_text(json.dumps(workflow), encoding="utf-8")
            done = self("workflow", "save", path, "--name", name)
            assert done.exit_code == 0, done.stderr

        def connect(self, name, other):
            """Configure a server that serves the workflows of another home."""
            program, *words = (*PROGRAM, "mcp", "serve", "--workflows")
            env = {"PFLOW_HOME": str(other.folder)}
            self.configure(name, {"command": program, "args": words, "env": env})

        def configure(self, name, server):
            path = tmp_path / "servers.json"
            path.write_text(json.dumps({"mcpServers": {name: server}}), encoding="utf-8")
            for arguments in (("mcp", "add", path), ("mcp", "sync", name)):
                done = self(*arguments)
                assert done.exit_code == 0, done.stderr

    return Home


def calling(node_type, **params):
    """Return a workflow of one node that passes a word on, and returns what it gets."""
    return {
        "inputs": {"word": {"type": "str"}},
        "nodes": [{"id": "call", "type": node_type, "params": params or {"word": "${word}"}}],
        "outputs": {"said": "${call.result}"},
    }


def test_a_workflow_of_another_pflow_ends_with_the_right_value(at, no_leftovers):
    first, second = at("first"), at("second")
    second.save("say", {**SAY, "outputs": {"message": "${say.message}!"}})
    first.connect("next", second)
    first.save("start", {**calling("mcp-next-say"), "outputs": {"said": "${call.message}"}})

    done = first("run", "start", "word=hello", "--json")
    assert done.exit_code == 0, done.stderr
    assert done.envelope["data"]["outputs"] == {"said": "hello!"}


WAYS = {
    "as a tool": calling("mcp-me-again"),
    "by name": calling("mcp-me-workflow-execute", workflow="again", parameters={"word": "${word}"}),
}


@pytest.mark.parametrize(("way", "transport"), [("as a tool", "stdio"), ("by name", "http")])
def test_a_workflow_that_calls_itself_is_refused_quickly(at, tmp_path, no_leftovers, way, transport):
    home = at("one")
    home.save("again", SAY)
    with serving(transport, home.folder, tmp_path, "--workflows") as served:
        if served.url:
            auth = {"type": "bearer", "token": TOKEN}
            home.configure("me", {"type": "http", "url": served.url, "auth": auth})
        else:
            home.connect("me", home)
        home.save("again", WAYS[way])
        began = time.monotonic()
        done = home("run", "again", "word=hello", "--json")
        assert time.monotonic() - began < QUICKLY
    assert done.exit_code == 1
    assert "again → again" in done.stdout


def test_a_circle_through_another_pflow_is_refused(at, no_leftovers):
    first, second = at("first"), at("second")
    first.save("ping", SAY)
    second.connect("first", first)
    second.save("pong", calling("mcp-first-ping"))
    first.connect("second", second)
    first.save("ping", calling("mcp-second-pong"))

    done = first("run", "ping", "word=hello", "--json")
    assert done.exit_code == 1
    assert "ping → a workflow of another pflow → ping" in done.stdout
