import json
from concurrent.futures import ThreadPoolExecutor

import attrs
import pytest

from pflow_mcp_plugin.catalog.tool_file import ToolFile
from pflow_mcp_plugin.storage import CorruptFile, StoreError
from pflow_mcp_plugin.trust.pins import (
    Pinned,
    Pins,
    approved_tools,
    compare,
    first_pins,
    older_pins,
    reviewed,
)
from pflow_mcp_plugin.types import ServerInfo, Tool

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
    pins.keep_for("a", {})
    assert path.read_text() == content
    pins.forget("a")
    assert pins.read("a") is None


def test_a_file_of_a_newer_version_is_refused(pins):
    pins.update("a", lambda _: PINNED)
    path = pins.folder / "a.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema_version": 2}))
    with pytest.raises(StoreError, match="newer pflow"):
        pins.read("a")


def test_pins_are_kept_for_their_own_launch_only(pins):
    pins.update("a", lambda _: PINNED)
    pins.keep_for("a", {**LAUNCH})
    assert pins.read("a") == PINNED
    pins.keep_for("a", {**LAUNCH, "command": "y"})
    assert pins.read("a") is None
    pins.keep_for("a", LAUNCH)


def test_another_launch_that_is_approved_changes_no_approved_tool(pins):
    pins.approve_launch("a", LAUNCH)
    assert pins.read("a") is None
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
LIST = Tool(name="list", description="Everything that is open.", annotations={"readOnlyHint": True})
CHANGED = attrs.evolve(CLOSE, annotations={"readOnlyHint": True})


def found(*tools, launch=LAUNCH, instructions="", **others):
    return ToolFile(
        server="a", launch=launch, info=ServerInfo(instructions=instructions), tools=tools, **others
    )


def pinned(*tools, **others):
    return Pinned(**{"launch": LAUNCH, **others}, tools={tool.name: tool for tool in tools})


def test_a_hash_that_was_taken_over_less_is_no_difference():
    assert not compare(pinned(attrs.evolve(CLOSE, hash="sha256:older")), found(CLOSE)).tools


def test_a_tool_that_differs_is_kept_with_its_approved_version_and_may_be_used():
    before, now = pinned(CLOSE, LIST), found(CHANGED, LIST)
    comparison = compare(before, now)
    assert comparison
    assert (comparison.unapproved, comparison.withheld) == ("", {})
    assert any("annotations.readOnlyHint" in line for line in comparison.lines())
    kept = reviewed(now, before, comparison)
    assert kept.synced == ((CHANGED, CLOSE), (LIST, None))
    assert kept.new == frozenset()


def test_the_sync_of_an_older_version_counts_as_the_first_while_the_config_is_the_same():
    older = found(CLOSE, launch=None, config_fingerprint="f1")
    now = found(CHANGED, config_fingerprint="f1")
    first = older_pins(older, now)
    assert first == pinned(CLOSE)
    assert [tool.name for tool in compare(first, now).tools] == ["close"]
    assert older_pins(older, attrs.evolve(now, config_fingerprint="f2")) is None
    assert older_pins(attrs.evolve(older, launch=LAUNCH), now) is None
    assert older_pins(None, now) is None


def test_what_is_shown_is_bounded_and_printable():
    names = {f"\x1b[2J{number}" * 40: {"type": "string"} for number in range(9)}
    tool = attrs.evolve(CLOSE, input_schema={"type": "object", "properties": names})
    lines = [*compare(pinned(tool), found(CLOSE)).lines()]
    assert sum(map(len, lines)) < 10_000
    assert all(line.isprintable() for line in lines)


def test_a_first_sync_approves_all_but_what_hides_text():
    hiding = attrs.evolve(LIST, description="Everything\U000e0041 that is open.")
    now = found(CLOSE, hiding, instructions="Be polite.")
    first = first_pins(now)
    assert first == pinned(CLOSE, instructions="Be polite.")
    comparison = compare(first, now)
    assert list(comparison.withheld) == ["list"]
    assert comparison.withheld["list"] == "hides text that nobody approved"  # which models read
    assert any("hides text that nobody approved: description" in line for line in comparison.lines())
    assert all(line.isprintable() for line in comparison.lines())
    assert not compare(approved_tools(first, now, ["list"]), now)
