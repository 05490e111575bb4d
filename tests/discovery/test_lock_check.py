from pathlib import Path

import attrs
import pytest

from pflow_mcp_plugin.contract import Paths, PflowError
from pflow_mcp_plugin.discovery import lock_check
from pflow_mcp_plugin.discovery.lock_file import NAME, LockedServer, LockFile
from pflow_mcp_plugin.discovery.servers import servers
from pflow_mcp_plugin.exchange import Listing
from pflow_mcp_plugin.types import ServerInfo, Tool

TOOLS = (Tool(name="add", description="Add."), Tool(name="a b", description="Spaces."))


def listing(*tools, version="1.0"):
    return Listing(info=ServerInfo(name="x", version=version), tools=tools)


@pytest.fixture
def known(tmp_path):
    known = servers(Paths(config=tmp_path, data=tmp_path, state=tmp_path, cache=tmp_path))
    known.store.add({"demo": {"command": "x", "args": ["${ONE}"]}, "never": {"command": "y"}})
    known.catalog.save("demo", listing(*TOOLS), known.store.fingerprint("demo"))
    return known


def lock_of(known, *tools, **others):
    here = lock_check.present_server(known, "demo", tools)
    return LockFile(path=Path(NAME), servers={"demo": here, **others})


def test_many_tools_are_read_as_few_are(known):
    tools = [Tool(name=f"t {number}", description=str(number)) for number in range(99)]
    known.catalog.save("demo", listing(*tools), known.store.fingerprint("demo"))
    known.catalog.mark("demo", lambda file: attrs.evolve(file, new=frozenset({"t 0", "t 1"})))
    # A workflow names a tool that nobody has approved as it is shown.
    names = ["t-0", *(tool.name for tool in tools[1:50])]
    whole = lock_check.present_server(known, "demo", [*names, "gone"]).tools
    assert list(whole) == names
    for name in names[:3]:
        assert lock_check.present_server(known, "demo", [name, "gone"]).tools == {name: whole[name]}


def test_the_hash_of_a_tool_is_taken_over_what_is_stored_not_over_what_is_said_of_it(known, tmp_path):
    before = lock_check.present_server(known, "demo", ["add"])
    path = tmp_path / "servers" / "demo.json"
    path.write_text(path.read_text().replace('"Add."', '"Bad."'))
    assert lock_check.present_server(known, "demo", ["add"]).tools != before.tools


def test_the_whole_file_is_compared_also_with_servers_that_are_not_there_any_more(known):
    lock = lock_of(known, "add", never=LockedServer(), other=LockedServer())
    assert [problem.path for problem in lock_check.compare_whole(lock, known)] == [
        "servers.never",
        "servers.other",
    ]


def test_a_workflow_with_a_bad_lock_file_has_problems(known, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    used = {"demo": {"add"}}
    for text, words in (
        ("a = [", "line 1, column 6"),
        ("schema_version = 2", "newer pflow"),
        ("schema_version = 1\nservers = 5", "Must be a table"),
    ):
        (tmp_path / NAME).write_text(text)
        (problem,) = lock_check.compare_workflow(known, used, tmp_path)
        assert words in problem.message
    (tmp_path / NAME).write_text("schema_version = 1\nx = 1\nservers = { a = { args = 1, env = 2 } }")
    found = lock_check.compare_workflow(known, used, tmp_path)
    assert [problem.path for problem in found] == ["servers.a.args", "servers.a.env"]


def test_a_lock_file_that_is_no_regular_file_or_much_too_large_is_refused(tmp_path):
    for path in (tmp_path, Path("/dev/zero")):
        with pytest.raises(PflowError, match="could not be read"):
            lock_check.read_lock(path)
    with (tmp_path / NAME).open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(PflowError, match="larger than 16 MiB"):
        lock_check.read_lock(tmp_path / NAME)


ONE, TWO = ("sha256:" + digit * 64 for digit in "12")
LAUNCH = {"transport": "stdio", "command": "npx", "args": ("-y", "server@1.2.0")}
LOCKED = LockedServer(launch=LAUNCH, version="1.2.0", tools={"add": ONE, "echo": ONE})
LOCK = LockFile(path=Path("/work/mcp-lock.toml"), servers={"demo": LOCKED})


def found(name="demo", **changes):
    problems = list(lock_check.differences(LOCK, {name: attrs.evolve(LOCKED, **changes)}, whole=False))
    assert {(problem.severity, problem.source) for problem in problems} == {("error", "/work/mcp-lock.toml")}
    return {problem.path: problem.message for problem in problems}


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
