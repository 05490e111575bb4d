"""The action of each failure, as `docs/workflows.md` lists them, and what is shown of a handled one."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import tomli_w
from workflow_parts import edge

ROUTES = ("error", "timeout", "rate_limited", "auth_failed", "resource_missing")


def test_a_server_that_cannot_be_started_takes_the_action_error(scripted, pflow, pflow_home, workflow):
    scripted("go", trust="auto")
    config = pflow_home / "config" / "mcp-servers.toml"
    document = tomllib.loads(config.read_text())
    document["mcpServers"]["odd"]["command"] = "no-such-program"
    config.write_text(tomli_w.dumps(document))
    nodes = [("call", "mcp-odd-go", {}), *((route, "echo", {"message": route}) for route in ROUTES)]
    done = pflow("run", workflow(*nodes, edges=[edge("call", route, route) for route in ROUTES]))
    assert (done.exit_code, done.stdout) == (0, "error\n"), done.stderr
    lines = pflow("trace", "show").stdout.splitlines()
    assert any(line.startswith("!  call") and "handled: Command not found" in line for line in lines)
    shown = pflow("trace", "show", "--step", "call").stdout
    assert "handled" in shown.splitlines()[0]
    assert shown.count("Command not found") == 1


SCHEMA = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}


def test_the_trace_tells_of_every_call_of_a_tool_that_is_refused_twice(pflow, scripted, workflow):
    scripted("search", server="github", schema=SCHEMA, env={"ANSWER": "limited"})
    path = workflow(
        ("search", "mcp-github-search", {"query": "auth"}),
        ("retry_handler", "echo", {"message": "${search.error}"}),
        ("end", "echo", {"message": "${search.result.arguments.query}"}),
        edges=[
            edge("search", "end"),
            edge("search", "retry_handler", "rate_limited"),
            edge("retry_handler", "search"),
        ],
    )
    ran = pflow("run", path, "--json")
    assert ran.envelope["data"]["outputs"] == {"message": "auth"}, ran.stderr
    steps = json.loads(Path(ran.envelope["trace_path"]).read_text())["steps"]
    ways = [(step["id"], step["action"]) for step in steps]
    refused = [("search", "rate_limited"), ("retry_handler", "default")]
    assert ways == [*refused, *refused, ("search", "default"), ("end", "default")]
    for step in steps[0], steps[2], steps[4]:
        assert (step["details"]["server"], step["details"]["tool"]) == ("github", "search")
        assert step["details"]["arguments"] == {"query": "auth"}
        assert step["details"]["protocol"]
    assert steps[0]["details"]["failure"]["ran"] == "ran"
    assert "failure" not in steps[4]["details"]
