"""Nothing that a server names makes a line of its own where people read.

Every command is run on two servers that hide the same text in every string; with that of one of them come
line ends and tabs. Both have to print as many lines.
"""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import hidden_text_server
import pytest

SERVER = Path(hidden_text_server.__file__)
HIDDEN = "\x1b[2J\u202e\u200b"
FORGED = f"\n  forged: line\n! forged\r\n\ttab\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029{HIDDEN}"
HARMLESS = f"harmless {'.' * 60}{HIDDEN}"
"""Too long for the end of a line, as the other is when it is escaped, and short in the name of a node."""
STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u2028-\u202e\t]")

COMMANDS = (
    "mcp sync odd",
    "mcp list",
    "mcp tools odd",
    "mcp info {node}",
    "mcp test odd",
    "mcp audit",
    "mcp diff",
    "mcp stubs",
    "mcp lock",
    "mcp approve odd {tool}",
    "mcp approve odd {wrong}",
    "mcp approve odd",
    "mcp sync odd",
    "mcp lock",
    "mcp lock --check",
    "mcp tools",
    "mcp info odd.nothing",
    "mcp call odd.nothing",
    "mcp {node} --help",
    "mcp logs odd",
    "mcp auth",
    "mcp export",
    "registry list",
    "registry search something",
    "registry describe {node}",
    "mcp disable odd",
    "mcp enable odd",
)
AFTER_CHANGE = (
    "mcp test odd",
    "mcp sync odd",
    "mcp list",
    "mcp tools",
    "mcp diff",
    "mcp audit",
    "mcp lock --check",
    "mcp approve odd {tool}",
    "mcp sync",
    "mcp approve odd",
    "mcp remove odd",
)


@attrs.frozen
class Twin:
    """A home with a configured server that says one text everywhere."""

    text: str
    folder: Path
    typed: Callable[..., Any]
    monkeypatch: pytest.MonkeyPatch

    def run(self, command: str) -> Any:
        nodes = self.nodes() if "{node}" in command else [{"node": ""}]
        words = {"node": nodes[0]["node"], "tool": f"bad{self.text}", "wrong": f"bax{self.text}"}
        return self.type(*(word.format(**words) for word in command.split()))

    def type(self, *words: str) -> Any:
        self.monkeypatch.setenv("PFLOW_HOME", str(self.folder / "home"))
        self.monkeypatch.setenv("COLUMNS", "9999")
        self.monkeypatch.chdir(self.folder)
        return self.typed(*words)

    def nodes(self) -> list[dict[str, str]]:
        found = self.run("mcp tools odd --json").envelope["data"]
        return [each for each in found if each["tool"].startswith("bad")]


@pytest.fixture
def twins(no_leftovers, tmp_path, typed, monkeypatch) -> list[Twin]:
    made = []
    for name, text in (("forged", FORGED), ("harmless", HARMLESS)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "text.json").write_text(json.dumps(text))
        twin = Twin(text, folder, typed, monkeypatch)
        table = {"command": sys.executable, "args": [str(SERVER), str(folder)], "protocol": "handshake"}
        assert twin.type("mcp", "add", json.dumps({"odd": table})).exit_code == 0
        made.append(twin)
    return made


def _compare(twins: list[Twin], command: str) -> list[str]:
    forged, harmless = (twin.run(command) for twin in twins)
    wrong = [] if forged.exit_code == harmless.exit_code else [f"{command}: exit {forged.exit_code}"]
    for stream in ("stdout", "stderr"):
        shown, other = getattr(forged, stream), getattr(harmless, stream)
        if shown.count("\n") != other.count("\n"):
            wrong.append(f"{command}: not as many lines:\n{shown}\n--\n{other}")
        if found := STEERS.findall(shown):
            wrong.append(f"{command}: {stream} has {sorted(set(found))!r}")
    return wrong


@pytest.mark.timeout(180)
def test_row_58_no_command_prints_a_line_that_a_server_forged(twins):
    wrong = [each for command in COMMANDS for each in _compare(twins, command)]
    for twin in twins:
        (twin.folder / "changed").touch()
    wrong += [each for command in AFTER_CHANGE for each in _compare(twins, command)]
    assert "\n".join(wrong) == ""


@pytest.mark.parametrize("command", ["mcp call {node} mode=fails", "registry run {node} mode=fails"])
def test_row_58_further_lines_of_what_a_tool_says_have_a_bar(twins, command):
    forged = twins[0]
    for preparing in ("mcp sync odd", "mcp approve odd", "mcp approve odd {tool}"):
        forged.run(preparing)
    failed = forged.run(command)
    told = failed.stderr.splitlines()
    assert (failed.exit_code, told[0][:6]) == (1, "Error:"), failed
    assert "  |   forged: line" in told
    assert [line for line in told[1:] if not line.startswith(("  | ", "  -> ", "  trace path: "))] == []


@pytest.mark.parametrize("command", ["mcp info {node}", "registry describe {node}"])
def test_row_58_further_lines_of_a_description_have_a_bar(twins, command):
    forged = twins[0]
    for preparing in ("mcp sync odd", "mcp approve odd"):
        forged.run(preparing)
    shown = forged.run(command).stdout.splitlines()
    begin = next(index for index, line in enumerate(shown) if "first" in line)
    described = shown[begin : shown.index("", begin)]
    assert len(described) > 1
    assert [line for line in described[1:] if not line.startswith("  | ")] == []
