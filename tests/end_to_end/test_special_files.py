"""Commands that are given a pipe, a terminal or a device where a file belongs."""

from __future__ import annotations

import json
import os

import pytest
from special_paths import special_path

ECHO = json.dumps({"nodes": [{"id": "say", "type": "echo", "params": {"message": "hello"}}]})


@pytest.mark.parametrize("kind", ["pipe", "pipe with a writer", "terminal", "endless device"])
@pytest.mark.parametrize(
    "words",
    [
        *("run", "validate", "workflow save --name x", "workflow import", "workflow graph"),
        *("workflow export-python", "mcp add"),
    ],
)
def test_a_command_refuses_what_is_no_regular_file(pflow, tmp_path, words, kind):
    with special_path(kind, tmp_path / "given.json") as path:
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
def test_a_workflow_and_an_input_without_end_are_refused(python, tmp_path, file, said):
    workflow = {"inputs": {"words": {"stdin": True}}, **json.loads(ECHO)}
    (tmp_path / "wf.json").write_text(json.dumps(workflow))
    with open("/dev/zero", "rb") as zeros:  # noqa: PTH123
        refused = python("-m", "pflow_mcp_plugin", "run", file, stdin=zeros)
    assert refused.exit_code == 2
    assert said in refused.stderr


@pytest.mark.parametrize("batch", [None, {"items": [1, 2], "parallel": True}])
def test_ctrl_c_ends_the_wait_for_a_pipe(started, tmp_path, signalled, batch):
    for name in ("begun", "silent"):
        os.mkfifo(tmp_path / name)
    begin = {"file_path": str(tmp_path / "begun"), "special_files": True, "content": "x"}
    wait = {"file_path": str(tmp_path / "silent"), "special_files": True, "timeout": 600}
    nodes = [
        {"id": "go", "type": "write-file", "params": begin},
        {"id": "wait", "type": "read-file", "params": wait, **({"batch": batch} if batch else {})},
    ]
    (tmp_path / "wf.json").write_text(json.dumps({"nodes": nodes}))
    program = started("run", "wf.json", "--json")
    assert (tmp_path / "begun").read_text() == "x"
    stdout, _ = signalled(program, 2)
    assert program.returncode == 130
    assert json.loads(stdout)["error"]["type"] == "interrupted"
