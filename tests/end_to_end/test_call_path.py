"""What a run reads of its own files on the way to a server."""

from __future__ import annotations

import json

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
