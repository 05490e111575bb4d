"""Workflows whose nodes are workflows of another pflow, with real processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import asynccontextmanager, contextmanager

import anyio
import httpx2
import pytest
from conversations import talk
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import listen

pytestmark = pytest.mark.slow

SAY = {
    "inputs": {"word": {"type": "str"}},
    "nodes": [{"id": "say", "type": "echo", "params": {"message": "${word}"}}],
}
SERVE = [sys.executable, "-P", "-m", "pflow_mcp_plugin", "mcp", "serve"]
TOKEN = "a-token-only-for-tests"
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
            env = {"PFLOW_HOME": str(other.folder)}
            self.configure(name, {"command": SERVE[0], "args": [*SERVE[1:], "--workflows"], "env": env})

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


def test_a_workflow_of_a_workflow_of_a_workflow_ends_with_the_right_value(at, no_leftovers):
    first, second, third = at("first"), at("second"), at("third")
    third.save("say", {**SAY, "outputs": {"message": "${say.message}!"}})
    second.connect("next", third)
    second.save("pass-on", {**calling("mcp-next-say"), "outputs": {"said": "${call.message}"}})
    first.connect("next", second)
    first.save("start", {**calling("mcp-next-pass-on"), "outputs": {"said": "${call.said}"}})

    done = first("run", "start", "word=hello", "--json")
    assert done.exit_code == 0, done.stderr
    assert done.envelope["data"]["outputs"] == {"said": "hello!"}


@pytest.mark.parametrize(
    ("node_type", "params"),
    [
        ("mcp-me-again", {}),
        ("mcp-me-workflow-execute", {"workflow": "again", "parameters": {"word": "${word}"}}),
    ],
    ids=["as a tool", "by name"],
)
def test_a_workflow_that_calls_itself_is_refused_quickly(at, no_leftovers, node_type, params):
    home = at("one")
    home.save("again", SAY)
    home.connect("me", home)
    home.save("again", calling(node_type, **params))

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


@contextmanager
def served_over_http(home):
    """Serve the workflows of a home over HTTP; yield the URL."""
    with subprocess.Popen(
        [*SERVE, "--http", "127.0.0.1:0", "--workflows"],
        env={**os.environ, "PFLOW_HOME": str(home.folder), "PFLOW_SERVE_TOKEN": TOKEN},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as program:
        try:
            found = (re.match(r"Serving pflow on (\S+) ", line) for line in program.stderr)
            yield next(match[1] for match in found if match)
        finally:
            program.send_signal(signal.SIGTERM)
            program.communicate(timeout=60)


@pytest.mark.parametrize("way", ["as a tool", "by name"])
def test_a_workflow_that_calls_itself_over_http_is_refused_quickly(at, no_leftovers, way):
    home = at("one")
    home.save("again", SAY)
    with served_over_http(home) as url:
        home.configure("me", {"type": "http", "url": url, "auth": {"type": "bearer", "token": TOKEN}})
        by_name = {"workflow": "again", "parameters": {"word": "${word}"}}
        node = ("mcp-me-again", {}) if way == "as a tool" else ("mcp-me-workflow-execute", by_name)
        home.save("again", calling(node[0], **node[1]))
        began = time.monotonic()
        done = home("run", "again", "word=hello", "--json")
        assert time.monotonic() - began < QUICKLY
    assert done.exit_code == 1
    assert "again → again" in done.stdout


@asynccontextmanager
async def connected(url):
    """Connect to a server over HTTP, with the token."""
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False, timeout=60) as http,
        streamable_http_client(url, http_client=http) as streams,
    ):
        yield streams


def test_a_client_over_http_that_listens_is_told_of_a_saved_workflow(at, no_leftovers):
    home = at("one")

    async def conversation(client):
        async with listen(client.session, tools_list_changed=True) as events:
            await anyio.to_thread.run_sync(home.save, "say", SAY)
            return type(await anext(events)).__name__, (await client.list_tools()).tools[-1].name

    with served_over_http(home) as url:
        assert talk(connected(url), conversation) == ("ToolsListChanged", "say")
