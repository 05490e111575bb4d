"""Nodes on the command line, as people type them: a real shell, the real program, real servers."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import prepared_starts
import pytest
from programs import executable

HERE = Path(__file__).parent
TEXT = {"type": "string"}
SERVERS = {
    "github": ("search_code", {"query": TEXT, "language": TEXT}, ["query"]),
    "slack": ("send_message", {"message": TEXT, "channel": TEXT}, ["message", "channel"]),
}
"""By name, the tool of each server, which answers with its arguments."""


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """The file in which the servers note their calls."""
    return tmp_path_factory.mktemp("log") / "log"


@pytest.fixture(scope="module")
def variables(tmp_path_factory, log):
    """Those of a shell with the program, whose home has the servers."""
    root = tmp_path_factory.mktemp("direct")
    path = os.pathsep.join([str(root), os.environ["PATH"]])
    made = {**os.environ, "PATH": path, "PFLOW_HOME": str(root / "home")}
    programs = {"pflow": prepared_starts.words(made)}
    for server, (tool, properties, required) in SERVERS.items():
        schema = {"type": "object", "properties": properties, "required": required}
        tools = json.dumps([{"name": tool, "inputSchema": schema}])
        command = ("env", f"TOOLS={tools}", f"LOG={log}", sys.executable, str(HERE / "scripted_tools.py"))
        programs[f"mcp-{server}"] = command
    for name, words in programs.items():
        executable(root / name, f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    for words in (
        "registry add-mcp --server github --command mcp-github --transport stdio",
        "registry add-mcp --server slack --command mcp-slack --transport stdio",
        "registry refresh",
    ):
        subprocess.run([root / "pflow", *words.split()], env=made, check=True, timeout=60)
    return made


@pytest.fixture
def typed(variables, tmp_path):
    """Run a line in a real shell, with an empty standard input and a folder of its own."""
    (tmp_path / "note.txt").write_text("from a file", encoding="utf-8")
    options = {"stdin": subprocess.DEVNULL, "capture_output": True, "encoding": "utf-8", "timeout": 60}
    return lambda line: subprocess.run(
        ["bash", "-c", line], check=False, cwd=tmp_path, env=variables, **options
    )


@pytest.mark.parametrize("arrow", ["then", "'>>'"])
def test_what_is_piped_in_goes_through_a_search_and_a_command_into_a_message(typed, arrow):
    done = typed(
        'echo "TODO comments" | pflow mcp-github-search-code --language=python'
        f" {arrow} shell --command 'printf \"In short: \"; cat' {arrow} mcp-slack-send-message"
        " --channel=dev-team"
    )
    assert done.returncode == 0, done.stderr
    sent = json.loads(done.stdout)["arguments"]
    assert sent["channel"] == "dev-team"
    assert sent["message"].startswith("In short: ")
    assert "TODO comments" in sent["message"]


@pytest.mark.parametrize(
    ("line", "file"),
    [
        (
            "pflow mcp-github-search-code --query=x >> mcp-slack-send-message --channel=x",
            "mcp-slack-send-message",
        ),
        ("pflow run-node echo --message x >> folder/echo", "folder/echo"),
    ],
)
def test_a_chain_that_the_shell_took_for_a_redirection_does_not_run(typed, log, tmp_path, line, file):
    (tmp_path / "folder").mkdir()
    before, made = log.read_text(), tmp_path / file
    done = typed(line)
    assert (done.returncode, made.read_bytes(), log.read_text()) == (2, b"", before)
    message, *steps = done.stderr.splitlines()
    assert message == f"Error: The shell took `>>` for itself: it appends the output to the file {made}"
    assert f"... then {made.name} ..., or quote it: '>>'" in steps[0]
    assert steps[1] == f"  -> Remove the file that the shell created: rm {made}"


LINES = [
    ("pflow echo --message $'two\\nlines'", "two\nlines\n"),
    ("pflow echo --message '$HOME ${x} `y`'", "$HOME ${x} `y`\n"),
    ("pflow echo --message '*'", "*\n"),
    ("pflow echo --message @note.txt", "from a file\n"),
    ("printf 'hello\\r\\n' | pflow echo", "hello\n"),
    ("echo '{\"a\": 2}' | pflow echo --message -", '{"a": 2}\n'),
]


@pytest.mark.parametrize(("line", "said"), LINES, ids=[line for line, _ in LINES])
def test_a_line_gives_the_node_what_was_meant(typed, line, said):
    done = typed(line)
    assert (done.stdout, done.stderr) == (said, "")
