import json
from concurrent.futures import ThreadPoolExecutor

import attrs
import pytest

from pflow_mcp_plugin.catalog.tool_file import ToolFile
from pflow_mcp_plugin.storage import CorruptFile, StoreError
from pflow_mcp_plugin.trust.pins import Pinned, Pins, compare, older_pins
from pflow_mcp_plugin.trust.tool_approval import fingerprint
from pflow_mcp_plugin.types import Server, Tool, ToolRecord

LAUNCH = {"transport": "stdio", "command": "x"}
TOOL = Tool(
    name="close",
    title="Close",
    description="Closes \ud800 it",
    input_schema={"maximum": 1e400, "minimum": -(2**63)},
    output_schema={},
    annotations={"readOnlyHint": True},
    hash="sha256:x",
)
PINNED = Pinned(launch=LAUNCH, instructions="Be polite.", tools={"close": TOOL})


@pytest.fixture
def pins(tmp_path):
    return Pins(tmp_path / "data" / "pins")


def test_what_was_approved_is_read_back_whole_and_private(pins):
    assert pins.read("a") is None
    assert pins.update("a", lambda _: PINNED) == PINNED
    assert pins.read("a") == PINNED
    assert (pins.folder / "a.json").stat().st_mode & 0o777 == 0o600
    assert pins.folder.stat().st_mode & 0o777 == 0o700


def test_pins_that_do_not_change_are_not_written(pins):
    pins.update("a", lambda _: PINNED)
    before = (pins.folder / "a.json").stat().st_ino
    pins.update("a", lambda pinned: pinned)
    assert (pins.folder / "a.json").stat().st_ino == before


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        '{"schema_version": 1}',
        '{"schema_version": 1, "server": "b", "launch": {}, "instructions": "", "tools": []}',
        '{"schema_version": 1, "server": "a", "launch": null, "instructions": "", "tools": []}',
        '{"schema_version": 1, "server": "a", "launch": {}, "instructions": "", "tools": [{}]}',
    ],
)
def test_a_corrupt_file_is_refused_and_left_until_it_is_forgotten(pins, content):
    path = pins.folder / "a.json"
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.raises(CorruptFile, match=r"a\.json"):
        pins.read("a")
    with pytest.raises(CorruptFile):
        pins.update("a", lambda _: PINNED)
    assert path.read_text() == content
    pins.forget("a")
    assert pins.read("a") is None


def test_a_file_of_a_newer_version_is_refused(pins):
    pins.update("a", lambda _: PINNED)
    path = pins.folder / "a.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema_version": 2}))
    with pytest.raises(StoreError, match="newer pflow"):
        pins.read("a")


def test_another_launch_that_is_approved_changes_no_approved_tool(pins):
    pins.approve_launch("a", LAUNCH)
    assert not pins.folder.exists()
    pins.update("a", lambda _: PINNED)
    launch = {**LAUNCH, "command": "y"}
    pins.approve_launch("a", launch)
    assert pins.read("a") == attrs.evolve(PINNED, launch=launch)


def test_several_writers_lose_nothing(pins):
    def add(number):
        def change(pinned):
            tools = pinned.tools if pinned else {}
            return attrs.evolve(PINNED, tools={**tools, f"t{number}": Tool(name=f"t{number}")})

        pins.update("a", change)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(add, range(24)))
    assert len(pins.read("a").tools) == 24


CLOSE = Tool(name="close", description="Close a ticket for good.", input_schema={"type": "object"})
CHANGED = attrs.evolve(CLOSE, annotations={"readOnlyHint": True})


def found(tool, **others):
    return ToolFile(**{"server": "a", "launch": LAUNCH, "tools": (tool,), **others})


def test_a_hash_that_was_taken_over_less_is_no_difference():
    before = Pinned(launch=LAUNCH, tools={"close": attrs.evolve(CLOSE, hash="sha256:older")})
    assert not compare(before, found(CLOSE)).tools


def test_the_sync_of_an_older_version_counts_as_the_first_while_the_config_is_the_same():
    older = found(CLOSE, launch=None, config_fingerprint="f1")
    now = found(CHANGED, config_fingerprint="f1")
    first = older_pins(older, now)
    assert first == Pinned(launch=LAUNCH, tools={"close": CLOSE})
    assert [tool.name for tool in compare(first, now).tools] == ["close"]
    assert older_pins(older, attrs.evolve(now, config_fingerprint="f2")) is None
    assert older_pins(attrs.evolve(older, launch=LAUNCH), now) is None
    assert older_pins(None, now) is None


SERVER = Server(name="a", command="x")
RECORD = ToolRecord(server="a", node="mcp-a-b", tool=CLOSE, config_fingerprint="f1", launch=LAUNCH)


def test_another_tool_or_launch_has_another_fingerprint_and_another_limit_has_not():
    others = [
        fingerprint(attrs.evolve(RECORD, found=attrs.evolve(CHANGED, hash="h2")), SERVER),
        fingerprint(attrs.evolve(RECORD, config_fingerprint="f2"), SERVER),
        fingerprint(attrs.evolve(RECORD, launch=None), SERVER),
        fingerprint(RECORD, attrs.evolve(SERVER, args=("-v",))),
    ]
    assert fingerprint(RECORD, SERVER) not in others
    assert fingerprint(RECORD, SERVER) == fingerprint(RECORD, attrs.evolve(SERVER, call_timeout=1))
