"""The node `http` on the real command line: runs that are killed; rules of the config."""

import signal

import pytest
from http_server import FaultServer, always

pytestmark = [pytest.mark.programs, pytest.mark.usefixtures("no_leftovers")]


@pytest.mark.parametrize(("method", "undecided"), [("POST", True), ("GET", False)])
def test_a_run_killed_while_it_waits_for_an_answer(pflow, started, workflow, method, undecided):
    runs = []

    async def script(request, reply):
        if len(server.requests) == 1:
            runs[0].kill()
        else:
            await reply.json([])

    with FaultServer(always(script)) as server:
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


def test_the_network_table_of_the_config_holds_for_every_url(pflow, pflow_home):
    async def script(request, reply):
        await reply.json([])

    file = pflow_home / "config" / "mcp-servers.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    with FaultServer(always(script)) as server:
        for text, match in (('deny = ["127.0.0.1"]', "is denied by deny"), ("dney = 5", "dney")):
            file.write_text(f"[network]\n{text}\n")
            done = pflow("http", f"url={server.url()}")
            assert done.exit_code == 2
            assert match in done.stderr
        assert server.connections == 0
        file.write_text("")
        assert pflow("http", f"url={server.url()}").stdout == "[]\n"
