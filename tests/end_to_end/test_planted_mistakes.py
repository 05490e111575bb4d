"""A workflow with ten mistakes gets ten problems at once, each with its place and a next step."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("mcp")

WORKFLOW = {
    "inputs": {"city": {"type": "string", "required": True}},
    "nodes": [
        {"id": "a", "type": "mcp-typed-cuont", "params": {}},
        {"id": "b", "type": "mcp-typed-describe", "params": {"value": "${city}", "valeu": 1}},
        {"id": "c", "type": "mcp-typed-describe", "params": {}},
        {"id": "d", "type": "mcp-typed-slow", "params": {"seconds": "soon"}},
        {"id": "e", "type": "echo", "params": {"message": "${b.tpye}"}},
        {"id": "f", "type": "echo", "params": {"message": "${ctiy}"}},
        {"id": "g", "type": "echo", "params": {"message": "${h.message}"}},
        {"id": "h", "type": "echo", "params": {"message": "never reached"}},
    ],
    "edges": [
        *({"from": first, "to": second} for first, second in ("ab", "bc", "cd", "de", "ef", "fg")),
        {"from": "g", "to": "nowhere"},
    ],
    "outputs": {"result": "${e.mesage}"},
}

PLANTED = {
    "$.nodes[0].type": "mcp-typed-count",
    "$.nodes[1].params.valeu": "value",
    "$.nodes[2].params": "value",
    "$.nodes[3].params.seconds": "soon",
    "$.nodes[4].params.message": "type",
    "$.nodes[5].params.message": "city",
    "$.nodes[6].params.message": "h",
    "$.edges[6].to": "nowhere",
    "$.nodes[7]": "h",
    "$.outputs.result": "message",
}
"""Where each mistake is, and a word that its message or next step must hold."""


def test_ten_planted_mistakes_are_ten_problems(pflow, typed, tmp_path):
    path = tmp_path / "wf.json"
    path.write_text(json.dumps(WORKFLOW))
    checked = pflow("validate", path, "--json")
    assert checked.exit_code == 2
    problems = {problem["path"]: problem for problem in checked.envelope["error"]["details"]["problems"]}
    assert set(problems) == set(PLANTED)
    for place, word in PLANTED.items():
        assert word in problems[place]["message"] + problems[place].get("suggestion", "")
        assert problems[place].get("suggestion"), place
