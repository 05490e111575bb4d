"""What people are told about the servers of a project."""

from __future__ import annotations

from pathlib import Path

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


def test_everything_that_decides_what_is_started_is_shown_and_only_secrets_are_masked():
    args = ["--deep", "a b", "--key=abcDEF123", "--auth", "sh -c evil", "--token", "./evil.sh"]
    env = {"LD_PRELOAD": "./x.so", "GIT_ASKPASS": "./ask.sh", "API_KEY": "abcDEF123"}
    lines = shown(command="./run.sh", args=args, cwd="/else", env=env, call_timeout=3)
    assert lines.splitlines() == [
        "x (stdio)",
        "  runs      ./run.sh --deep 'a b' '--key=****' --auth 'sh -c evil' --token ./evil.sh",
        "  cwd       /else",
        "  env       LD_PRELOAD=./x.so",
        "  env       GIT_ASKPASS=./ask.sh",
        "  env       API_KEY=****",
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
    tables = {"x": {"command": "a"}, "y": {"command": "b"}}
    reading = ProjectReading(path=FILE, state="approved", tables=tables)
    (warning,) = told(reading, x={"command": "other"}, y={"command": "b", "call_timeout": 3})
    assert (warning.severity, warning.path) == ("warning", "mcpServers.x")
    assert warning.message == (f"Server x is in {OWN} and in {FILE}: the one in mcp-servers.toml is used")


def test_a_server_that_is_used_without_approval_is_shown_in_full():
    tables = {"x": {"command": "a\u200b", "env": {"B": "${C}"}}}
    (warning,) = told(ProjectReading(path=FILE, state="asked", tables=tables))
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
