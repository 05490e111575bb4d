"""Each `--json` object has the keys that `docs/commands.md` promises."""

import json
import re
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).parents[2] / "docs" / "commands.md"
NUMBERS = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
WORKFLOW = {
    "nodes": [{"id": "a", "type": "mcp-box-add", "params": {"a": "${x}", "b": 2}}],
    "inputs": {"x": {"type": "int"}},
    "outputs": {"sum": {"source": "${a.result}"}},
}
LINES = [
    *("mcp list", "mcp sync", "mcp test box", "mcp tools", "mcp info box.add"),
    *("mcp call box.add a=1 b=2", "mcp disable box", "mcp enable box", "mcp audit", "mcp diff"),
    *("mcp presets", "mcp lock", "mcp stubs", "mcp import --dry-run", "mcp export --to mcp-json"),
    *("mcp logout box", "run sum.json x=1", "run sum.json x=1 --dry-run"),
    *("run-node mcp-box-add --a 1 --b 2", "validate sum.json", "plan add", "plugins"),
    *("workflow save sum.json --name sum", "workflow import sum.md", "workflow list"),
    *(
        "workflow discover sum",
        "workflow show sum",
        "workflow delete sum",
        "registry list",
        "registry search add",
    ),
    *("registry describe mcp-box-add", "registry discover add", "registry run mcp-box-add a=1 b=2"),
    *("trace list", "settings list", "cache info", "cache clear", "config path", "mcp remove box"),
]
"""How the commands are run, in this order."""
BESIDE = {
    "trace_path": {"mcp call", "run", "run-node", "registry run"},
    "total": {"registry search", "trace list"},
    "ranked_by": {"registry discover", "workflow discover"},
}


def documented():
    """Return the kind of `data` and its keys, by command, as the table in the documentation says."""
    rows = re.findall(
        r"^\| (`[^|]+`) \| (list|object) \| ([^|]+) \|$", DOCUMENT.read_text("utf-8"), re.MULTILINE
    )
    return {
        command: (kind, set(re.findall(r"`([^`]+)`", keys)))
        for commands, kind, keys in rows
        for command in re.findall(r"`([^`]+)`", commands)
    }


def command_of(line, commands):
    """Return the command that a line runs, as the documentation names it."""
    if "--dry-run" in line and line.startswith("run "):
        return "run --dry-run"
    return max((each for each in commands if f"{line} ".startswith(f"{each} ")), key=len, default=line)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_every_command_prints_the_keys_that_are_documented(pflow, scripted, tmp_path):
    promised = documented()
    run = {command_of(line, promised): line for line in LINES}
    assert promised.keys() == run.keys()
    (tmp_path / "sum.json").write_text(json.dumps(WORKFLOW))
    (tmp_path / "sum.md").write_text("# Sum\n\n## Steps\n\n### add\n\n- type: mcp-box-add\n- a: 1\n- b: 2\n")
    scripted("add", server="box", schema=NUMBERS)
    assert pflow("settings", "set", "TOKEN", "-", stdin="planted\n").exit_code == 0
    missing = {}
    for command, line in run.items():
        finished = pflow(*line.split(), "--json")
        assert finished.exit_code == 0, (line, finished.stdout, finished.stderr)
        envelope = finished.envelope
        assert (envelope["schema"], envelope["success"]) == (1, True)
        kind, keys = promised[command]
        data = envelope["data"]
        assert isinstance(data, {"list": list, "object": dict}[kind]), command
        each = data if kind == "list" else [data]
        assert each, f"{line}: nothing is listed"
        left = set().union(*(keys - item.keys() for item in each))
        left |= {key for key, commands in BESIDE.items() if (command in commands) != (key in envelope)}
        if left:
            missing[command] = left
    assert missing == {}


@pytest.mark.parametrize(
    "line",
    ["run absent.json", "mcp test absent", "runn x"],
)
def test_every_failure_prints_the_keys_that_are_documented(pflow, line):
    finished = pflow(*line.split(), "--json")
    envelope = finished.envelope
    assert finished.exit_code != 0
    assert envelope.keys() == {"schema", "success", "error"}
    assert (envelope["schema"], envelope["success"]) == (1, False)
    assert envelope["error"].keys() == {"type", "message", "details", "suggestions"}
