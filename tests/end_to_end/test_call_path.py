"""How far it is from the command line to a server, and what a run reads of its own files on the way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

MOST_FRAMES = {"run": 20, "mcp": 21}
"""Functions of the package that a reader passes on the way of one call."""


@pytest.mark.parametrize(
    "words", [("run", "say.json"), ("mcp", "call", "demo.echo", "value=NEEDLE")], ids=" ".join
)
def test_few_functions_stand_between_the_command_line_and_the_bytes_on_the_pipe(
    pflow, python, tmp_path, words
):
    assert pflow("mcp", "demo").exit_code == 0
    node = {"id": "say", "type": "mcp-demo-echo", "params": {"value": "NEEDLE"}}
    (tmp_path / "say.json").write_text(json.dumps({"nodes": [node]}))
    ran = python(Path(__file__).with_name("call_path.py"), "NEEDLE", *words)
    path = ran.stderr.splitlines()
    print("\n".join(path))
    assert ran.exit_code == 0
    assert path[0] == "host/cli/main.py:main"
    assert "execution/node.py:MCPNode.exec" in path
    assert path[-1].startswith("client/transport/line_transports.py:PipeWriter.")
    assert len(path) <= MOST_FRAMES[words[0]]


COUNTED = """
import json, os, sys
from collections import Counter

home, opened = os.environ["PFLOW_HOME"], Counter()

def note(event, args):
    if event == "open" and isinstance(args[0], str | os.PathLike) and str(args[0]).startswith(home):
        opened[os.path.basename(args[0])] += 1

sys.addaudithook(note)
from pflow_mcp_plugin.__main__ import main
sys.argv = ["pflow", *sys.argv[1:]]
assert main() == 0
sys.stderr.write(json.dumps(opened))
"""


def test_a_run_reads_the_config_and_each_tool_file_once(pflow, python, workflow):
    assert pflow("mcp", "demo").exit_code == 0
    add = {"a": 1, "b": 2}
    path = workflow(
        ("one", "mcp-demo-add", add),
        ("two", "mcp-demo-add", add),
        ("say", "mcp-demo-word-count", {"text": "a b"}),
    )
    ran = python("-c", COUNTED, "run", path)
    assert ran.exit_code == 0, ran.stderr
    opened = json.loads(ran.stderr)
    assert (opened["mcp-servers.toml"], opened["demo.json"]) == (1, 1)
