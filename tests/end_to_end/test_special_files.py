"""Commands that are given a pipe or a device where a file belongs."""

from __future__ import annotations

import json

import pytest
from special_paths import special_path

ECHO = json.dumps({"nodes": [{"id": "say", "type": "echo", "params": {"message": "hello"}}]})


@pytest.mark.parametrize(
    "words",
    [
        *("run", "validate", "workflow save --name x", "workflow import", "workflow graph"),
        *("workflow export-python", "mcp add"),
    ],
)
def test_a_command_refuses_what_is_no_regular_file(pflow, tmp_path, words):
    with special_path("pipe", tmp_path / "given.json") as path:
        refused = pflow(*words.split(), path, "--json")
    assert refused.exit_code == 2
    assert "not a regular file" in refused.envelope["error"]["message"]


@pytest.mark.parametrize("place", ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"])
def test_a_workflow_comes_from_standard_input_where_asked_for(pflow, place):
    assert pflow("run", place, stdin=ECHO).stdout == "hello\n"


@pytest.mark.parametrize(
    ("file", "said"),
    [("/dev/stdin", "it is larger than 256 MiB"), ("wf.json", "Standard input is larger than 256 MiB")],
)
def test_a_workflow_and_an_input_without_end_are_refused(python, workflow, file, said):
    workflow(**json.loads(ECHO), inputs={"words": {"stdin": True}})
    with open("/dev/zero", "rb") as zeros:  # noqa: PTH123
        refused = python("-m", "pflow_mcp_plugin", "run", file, stdin=zeros)
    assert refused.exit_code == 2
    assert said in refused.stderr
