from pathlib import Path

import attrs

from pflow_mcp_plugin.discovery.lock_check import differences
from pflow_mcp_plugin.discovery.lock_file import LockedServer, LockFile

ONE, TWO = ("sha256:" + digit * 64 for digit in "12")
LAUNCH = {"transport": "stdio", "command": "npx", "args": ("-y", "server@1.2.0")}
LOCKED = LockedServer(launch=LAUNCH, version="1.2.0", tools={"add": ONE, "echo": ONE})
LOCK = LockFile(path=Path("/work/mcp-lock.toml"), servers={"demo": LOCKED})


def found(*, whole=False, name="demo", **changes):
    return dict(_found(whole, name, changes))


def _found(whole, name, changes):
    problems = list(differences(LOCK, {name: attrs.evolve(LOCKED, **changes)}, whole=whole))
    assert {problem.severity for problem in problems} <= {"error"}
    assert {problem.source for problem in problems} <= {"/work/mcp-lock.toml"}
    return [(problem.path, problem.message) for problem in problems]


def test_the_part_of_the_launch_and_the_version_that_differ_are_told_with_both_values():
    launch = {**LAUNCH, "args": ("-y", "server@1.3.0"), "command": "bunx", "cwd": "/x"}
    parts = (
        'command: "npx" → "bunx"; args[1]: "server@1.2.0" → "server@1.3.0"; cwd: none → "/x"; '
        'the version it reports: "1.2.0" → none'
    )
    assert found(launch=launch, version="", tools={"add": TWO}) == {
        "servers.demo": f"Server demo differs from mcp-lock.toml: {parts}",
        "servers.demo.tools.add": f"Tool add of server demo differs from the locked one: {ONE} → {TWO}; "
        f"{parts}",
    }


def test_a_server_or_tool_that_is_not_locked_is_a_difference():
    assert found(name="other") == {"servers.other": "Server other is not in mcp-lock.toml"}
    (message,) = found(tools={"add": ONE, "new": TWO}).values()
    assert message.startswith(f"Tool new of server demo is not in mcp-lock.toml: it is {TWO}")


def test_hidden_and_long_text_is_shown_escaped_and_cut():
    messages = found(launch={**LAUNCH, "command": "a\u202e" + "b" * 900}, tools={"x\u200b\x1b[2J": TWO})
    told = "".join([*messages, *messages.values()])
    assert told.isprintable()
    assert "\\u202e" in told
    assert "\\u200b" in told
    assert len(told) < 1500
