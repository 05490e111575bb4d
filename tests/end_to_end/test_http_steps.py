"""The node `http` on the real command line: runs that are cut, resumed and killed; rules of the config."""

from __future__ import annotations

import json
import signal
from contextlib import ExitStack

import pytest
from certificates import Authority
from http_server import FaultServer, always

pytestmark = [pytest.mark.programs, pytest.mark.usefixtures("no_leftovers")]


@pytest.fixture
def serve():
    with ExitStack() as stack:
        yield lambda script, *given, **place: stack.enter_context(
            FaultServer(always(script), *given, **place)
        )


@pytest.fixture
def cutting(serve, tmp_path, workflow):
    """A server over TLS that hangs up on the first POST, and its workflow: GET, POST, GET."""
    authority, posts = Authority(tmp_path), []

    async def script(request, reply):
        if request.method == "POST":
            posts.append(request.body)
            if len(posts) == 1:
                reply.reset()
                return
        await reply.json({"at": request.target, "posts": len(posts)})

    server = serve(script, authority.server_context("127.0.0.1"))
    trusted = {"ca_bundle": str(authority.file)}
    server.posts = posts
    return server, workflow(
        ("before", "http", {"url": server.url(path="/before"), **trusted}),
        ("send", "http", {"url": server.url(), "method": "POST", "body": "${before.body.at}", **trusted}),
        ("after", "http", {"url": server.url(path="/after"), **trusted}),
        outputs={"sent": "${send.body}", "posts": "${after.body.posts}"},
    )


def targets(server):
    return [(request.method, request.target) for request in server.requests]


def test_a_post_whose_connection_was_cut_is_asked_about(pflow, cutting):
    server, path = cutting
    done = pflow("run", path, "--json")
    assert done.exit_code == 4
    assert [it["step"] for it in json.loads(done.stdout)["error"]["details"]["undecided"]] == ["send"]
    again = pflow("resume", "--json")
    assert again.exit_code == 4
    assert server.posts == [b"/before"]
    told = pflow(
        "resume", "--assume-done", 'send={"status": 200, "headers": {}, "body": "by hand"}', "--json"
    )
    assert json.loads(told.stdout)["data"]["outputs"] == {"sent": "by hand", "posts": 1}
    assert targets(server) == [("GET", "/before"), ("POST", "/mcp"), ("GET", "/after")]


@pytest.mark.parametrize(("method", "undecided"), [("POST", True), ("GET", False)])
def test_a_run_killed_while_it_waits_for_an_answer(pflow, started, serve, workflow, method, undecided):
    runs = []

    async def script(request, reply):
        if len(server.requests) == 1:
            runs[0].kill()
        else:
            await reply.json([])

    server = serve(script)
    runs.append(started("run", workflow(("send", "http", {"url": server.url(), "method": method}))))
    assert runs[0].wait(20) == -signal.SIGKILL
    done = pflow("resume")
    assert len(server.requests) == 1
    if undecided:
        assert done.exit_code == 4
        assert pflow("resume", "--assume-not-done", "send").exit_code == 0
        assert len(server.requests) == 2
    else:  # what only reads leaves nothing to go on with
        assert "no run to resume" in done.stderr


def test_the_network_table_of_the_config_holds_for_every_url(pflow, pflow_home, serve, tmp_path):
    async def script(request, reply):
        await reply.json([])

    server = serve(script)
    file = pflow_home / "config" / "mcp-servers.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    for text, match in (('deny = ["127.0.0.1"]', "is denied by deny"), ("dney = 5", "dney")):
        file.write_text(f"[network]\n{text}\n")
        done = pflow("http", f"url={server.url()}")
        assert done.exit_code == 2
        assert match in done.stderr
    assert server.connections == 0
    file.write_text("")
    assert pflow("http", f"url={server.url()}").stdout == "[]\n"
