"""How far it is from the command line to a server."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

MOST_FRAMES = 22
"""Functions of the package that a reader passes on the way of one call."""


def test_few_functions_stand_between_the_command_line_and_the_bytes_on_the_pipe(pflow, tmp_path):
    assert pflow("mcp", "demo").exit_code == 0
    node = {"id": "say", "type": "mcp-demo-echo", "params": {"value": "NEEDLE"}}
    (tmp_path / "say.json").write_text(json.dumps({"nodes": [node]}))
    program = [sys.executable, str(Path(__file__).with_name("call_path.py")), tmp_path / "say.json", "NEEDLE"]
    ran = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    path = ran.stderr.splitlines()
    print("\n".join(path))
    assert ran.returncode == 0
    assert path[0] == "host/cli/main.py:main"
    assert "execution/node.py:MCPNode.exec" in path
    assert path[-1].startswith("client/transport/pipes.py:")
    assert len(path) <= MOST_FRAMES
