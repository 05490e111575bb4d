"""The MCP Inspector, a client that this project has no part in, on `pflow mcp serve`."""

from __future__ import annotations

import json
import os
import subprocess

import pytest
from served_pflow import TOKEN, TOOLS, serving

pytestmark = [pytest.mark.servers, pytest.mark.timeout(600)]  # its install takes a while

GREET = {
    "inputs": {"name": {"type": "string", "required": True}},
    "nodes": [{"id": "say", "type": "echo", "params": {"message": "Hello ${name}"}}],
    "outputs": {"greeting": {"source": "${say.message}"}},
}
_TOOL_FAILED = 5
"""The Inspector's exit code for a result with `isError`."""
_SECONDS = 90


@pytest.fixture
def served(request, pflow, pflow_home, tmp_path, no_leftovers):
    """A pflow with a saved workflow, served with its saved workflows as tools."""
    saved = tmp_path / "greet.json"
    saved.write_text(json.dumps(GREET), encoding="utf-8")
    said = ("--name", "greet", "--description", "Greets someone")
    assert pflow("workflow", "save", saved, *said).exit_code == 0
    with serving(request.param, pflow_home, tmp_path, "--workflows") as served:
        yield served


@pytest.fixture
def inspect(served, inspector_command, tmp_path):
    """Run the Inspector with a method; return what it prints, an object; `era` by keyword."""

    def inspect(method, *options, era="legacy", exit_code=0):
        if served.url:
            target = ["--server-url", served.url, "--transport", "http"]
            target += ["--header", f"Authorization: Bearer {TOKEN}"]
        else:
            home = ["-e", f"PFLOW_HOME={served.env['PFLOW_HOME']}"]
            target = ["--cwd", str(served.folder), *home, "--", *served.command]
        words = ["--quiet", "--format", "json", "--method", method, "--protocol-era", era, *options]
        done = subprocess.run(
            [*inspector_command, *words, *target],
            env={**os.environ, "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        assert done.returncode == exit_code, done.stderr
        return json.loads(done.stdout)["result"]

    return inspect


@pytest.mark.parametrize(("served", "era"), [("stdio", "modern"), ("http", "legacy")], indirect=["served"])
def test_it_lists_the_tools_finds_their_schemas_portable_and_calls_them(inspect, era):
    """With `--strict`, a schema that not every client understands is an error."""
    tools = inspect("tools/list", "--strict", era=era)["tools"]
    assert {tool["name"] for tool in tools} > TOOLS
    (saved,) = (tool for tool in tools if tool["name"] not in TOOLS)
    assert saved["inputSchema"]["required"] == ["name"]
    ada = {"name": "Ada"}
    calls = ((saved["name"], ada), ("workflow_execute", {"workflow": "greet", "parameters": ada}))
    for name, arguments in calls:
        call = ["--tool-name", name, "--tool-args-json", json.dumps(arguments)]
        answer = inspect("tools/call", *call, era=era)["structuredContent"]
        assert answer.get("data", {"outputs": answer})["outputs"] == {"greeting": "Hello Ada"}


@pytest.mark.parametrize("served", ["http"], indirect=True)
def test_it_sees_why_a_call_failed(inspect):
    call = ["--tool-name", "registry_run", "--tool-args-json", json.dumps({"node_type": "ecko"})]
    answer = inspect("tools/call", *call, exit_code=_TOOL_FAILED)
    assert answer["isError"]
    assert answer["structuredContent"]["error"]["type"] == "not_found"


@pytest.mark.parametrize("served", ["stdio"], indirect=True)
def test_it_lists_resources_and_prompts_and_reads_one_of_each(inspect):
    uris = [resource["uri"] for resource in inspect("resources/list")["resources"]]
    uri = next(uri for uri in uris if "greet" in uri)
    contents = inspect("resources/read", "--uri", uri, era="modern")["contents"]
    assert all(content["text"] for content in contents)
    (prompt,) = inspect("prompts/list")["prompts"]
    given = [f"{argument['name']}=text" for argument in prompt["arguments"]]
    got = inspect("prompts/get", "--prompt-name", prompt["name"], "--prompt-args", *given, era="modern")
    assert got["messages"][0]["content"]["text"]
