"""An agent that has nothing but the served tools finds nodes, builds a workflow, repairs, runs and saves it.

No language model takes part: what the agent decides, it reads from the answers. It works on the real
filesystem and git servers.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess

import pytest
from served_pflow import serving

pytestmark = [pytest.mark.servers, pytest.mark.parametrize("transport", ["stdio", "http"])]

NOTES = "Call Ada\n"
ENGINEER = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
MOST_REPAIRS = 4


@pytest.fixture
def servers(pflow, filesystem_command, git_command, tmp_path):
    """The filesystem and git servers, synced, with a file of notes and a repository of one commit."""
    (tmp_path / "files/notes.txt").write_text(NOTES)
    repository = tmp_path / "repository"
    (repository / "a.txt").write_text("a")
    for words in (["add", "."], [*ENGINEER, "commit", "--quiet", "-m", "The first commit"]):
        subprocess.run(["git", "-C", str(repository), *words], check=True)
    for name, command in (("filesystem", filesystem_command), ("git", git_command)):
        assert pflow("mcp", "add", name, "--", *command).exit_code == 0
    assert pflow("mcp", "sync").exit_code == 0


class Agent:
    """Calls tools; keeps the answers of which it makes the next call."""

    def __init__(self, client):
        self.client = client

    async def call(self, tool, **arguments):
        result = await self.client.call_tool(tool, arguments)
        assert result.is_error is not result.structured_content["success"]
        return result.structured_content

    async def told(self, tool, **arguments):
        """Call a tool that has to succeed; return its data."""
        answer = await self.call(tool, **arguments)
        assert answer["success"], answer
        return answer["data"]


async def build(agent, notes, repository):
    """Find the nodes, learn their parameters and outputs, and return a workflow with three mistakes."""
    found = await agent.told("registry_discover", task="read a text file and the git log of a repository")
    nodes = [match["node"] for match in found["matches"]]
    read, log = "mcp-filesystem-read-text-file", "mcp-git-git-log"
    assert {read, log} <= set(nodes)
    assert all(0 <= match["confidence"] <= 1 and match["reason"] for match in found["matches"])
    described = (await agent.told("registry_describe", nodes=[read, log]))["nodes"]
    (path, *_), (repo, *_) = ([it["key"] for it in node["interface"]["params"]] for node in described)
    text = await structure(agent, read, {path: notes})
    commits = await structure(agent, log, {repo: repository})
    assert "Commit history" in str(commits)
    return {
        "inputs": {name: {"type": "string", "required": True} for name in ("file", "repository")},
        "nodes": [
            {"id": "notes", "type": read[:-1], "params": {path: "${file}"}},
            {"id": "log", "type": log, "params": {repo: "${repository}", "max_cont": 3}},
        ],
        "outputs": {
            "text": {"source": "${notes." + leaf(text)[:-1] + "}"},
            "log": {"source": "${log." + leaf(commits) + "}"},
        },
    }


async def structure(agent, node, parameters):
    """Run a node for the structure of what it really returns."""
    return (await agent.told("registry_run", node_type=node, parameters=parameters))["structure"]


def leaf(paths):
    """Return the first path that stands for text, as a template spells it."""
    return next(it["path"] for it in paths if it["type"] == "str" and it["sample"])


async def repaired(agent, workflow):
    """Validate and follow the suggestions until nothing is left; return the workflow, and what changed."""
    changed = []
    for _ in range(MOST_REPAIRS):
        problems = errors_of(await agent.call("workflow_validate", workflow=workflow))
        if not problems:
            return workflow, changed
        for problem in problems:
            assert problem["suggestion"], problem
            follow(workflow, problem["path"], problem["suggestion"])
            changed.append(problem["path"])
    raise AssertionError(f"still wrong after {changed}")


def errors_of(answer):
    """Return the errors in an answer of `workflow_validate`, each with path, message and suggestion."""
    if answer["success"]:
        assert answer["data"]["valid"]
        return []
    problems = answer["error"]["details"]["problems"]
    return [problem for problem in problems if problem["severity"] == "error"]


def follow(workflow, path, suggestion):
    """Make the change that a suggestion `Did you mean X?` asks for at a JSON path."""
    found = re.match(r"Did you mean (\S+?)\?", suggestion)
    assert found, suggestion
    meant = found[1]
    *steps, last = re.findall(r"\w+", path)
    inside = workflow
    for step in steps:
        inside = inside[int(step)] if isinstance(inside, list) else inside[step]
    if last == "type":
        inside[last] = meant
    elif last == "source":
        inside[last] = re.sub(r"\w+(?=}$)", meant, inside[last])
    else:
        inside[meant] = inside.pop(last)


def test_an_agent_builds_a_workflow_with_nothing_but_the_tools(
    transport, servers, pflow_home, tmp_path, no_leftovers
):
    notes, repository = str(tmp_path / "files/notes.txt"), str(tmp_path / "repository")
    values = {"file": notes, "repository": repository}

    async def session():
        with serving(transport, pflow_home, tmp_path) as served:
            async with served.client() as client:
                agent = Agent(client)
                workflow, changed = await repaired(agent, await build(agent, notes, repository))
                assert sorted(changed) == [
                    "$.nodes[0].type",
                    "$.nodes[1].params.max_cont",
                    "$.outputs.text.source",
                ]
                ran = await agent.call("workflow_execute", workflow=workflow, parameters=values)
                check_run(ran)
                as_text = json.dumps(workflow)
                description = "Reads notes and the history of a repository"
                await agent.told(
                    "workflow_save", workflow_file=as_text, name="notes-and-log", description=description
                )
                found = await agent.told("workflow_discover", query="read my notes and the git history")
                assert found["matches"][0]["name"] == "notes-and-log"
                ran = await agent.call("workflow_execute", workflow="notes-and-log", parameters=values)
                check_run(ran)
                trace = await agent.told("trace_read", trace_file="latest")
                assert trace["run_id"] == ran["data"]["run_id"]
                assert [step["id"] for step in trace["steps"]] == ["notes", "log"]

    asyncio.run(session())


def check_run(answer):
    assert answer["success"], answer
    assert answer["trace_path"]
    outputs = answer["data"]["outputs"]
    assert outputs["text"] == NOTES
    assert "The first commit" in outputs["log"]
