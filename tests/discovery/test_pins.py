import json
from concurrent.futures import ThreadPoolExecutor

import attrs
import pytest

from pflow_mcp_plugin.storage import CorruptFile, StoreError
from pflow_mcp_plugin.trust.pins import Pinned, Pins
from pflow_mcp_plugin.types import Tool

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
        "",
        "{",
        "[]",
        "{}",
        '{"schema_version": 1}',
        '{"schema_version": 1, "server": "b", "launch": {}, "instructions": "", "tools": []}',
        '{"schema_version": 1, "server": "a", "launch": null, "instructions": "", "tools": []}',
        '{"schema_version": 1, "server": "a", "launch": {}, "instructions": "", "tools": [{}]}',
        '{"schema_version": 1, "server": "a", "launch": {}, "instructions": "", "tools": 3}',
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
