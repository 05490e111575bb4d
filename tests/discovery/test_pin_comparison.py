import attrs

from pflow_mcp_plugin.catalog.tool_file import ToolFile
from pflow_mcp_plugin.trust import pins
from pflow_mcp_plugin.trust.pins import Pinned
from pflow_mcp_plugin.types import ServerInfo, Tool

LAUNCH = {"transport": "stdio", "command": "x"}
OTHER = {"transport": "stdio", "command": "y"}
CLOSE = Tool(name="close", description="Close a ticket for good.", input_schema={"type": "object"})
LIST = Tool(name="list", description="Everything that is open.", annotations={"readOnlyHint": True})
CHANGED = attrs.evolve(CLOSE, annotations={"readOnlyHint": True})


def found(*tools, launch=LAUNCH, instructions="", **others):
    return ToolFile(
        server="a", launch=launch, info=ServerInfo(instructions=instructions), tools=tools, **others
    )


def pinned(*tools, **others):
    return Pinned(**{"launch": LAUNCH, **others}, tools={tool.name: tool for tool in tools})


def compare(before, now):
    return pins.compare(before, now)


def test_a_hash_that_was_taken_over_less_is_no_difference():
    assert not compare(pinned(attrs.evolve(CLOSE, hash="sha256:older")), found(CLOSE)).tools


def test_a_tool_that_differs_is_kept_with_its_approved_version_and_may_be_used():
    before, now = pinned(CLOSE, LIST), found(CHANGED, LIST)
    comparison = compare(before, now)
    assert comparison
    assert (comparison.unapproved, comparison.withheld) == ("", {})
    assert any("annotations.readOnlyHint" in line for line in comparison.lines())
    kept = pins.reviewed(now, before, comparison)
    assert kept.synced == ((CHANGED, CLOSE), (LIST, None))
    assert kept.new == frozenset()


def test_the_sync_of_an_older_version_counts_as_the_first_while_the_config_is_the_same():
    older = found(CLOSE, launch=None, config_fingerprint="f1")
    now = found(CHANGED, config_fingerprint="f1")
    first = pins.older_pins(older, now)
    assert first == pinned(CLOSE)
    assert [tool.name for tool in compare(first, now).tools] == ["close"]
    assert pins.older_pins(older, attrs.evolve(now, config_fingerprint="f2")) is None
    assert pins.older_pins(attrs.evolve(older, launch=LAUNCH), now) is None
    assert pins.older_pins(None, now) is None


def test_what_is_shown_is_bounded_and_printable():
    names = {f"\x1b[2J{number}" * 40: {"type": "string"} for number in range(9)}
    tool = attrs.evolve(CLOSE, input_schema={"type": "object", "properties": names})
    lines = [*compare(pinned(tool), found(CLOSE)).lines()]
    assert sum(map(len, lines)) < 10_000
    assert all(line.isprintable() for line in lines)


def test_a_first_sync_approves_all_but_what_hides_text():
    hiding = attrs.evolve(LIST, description="Everything\U000e0041 that is open.")
    now = found(CLOSE, hiding, instructions="Be polite.")
    first = pins.first_pins(now)
    assert first == pinned(CLOSE, instructions="Be polite.")
    comparison = compare(first, now)
    assert list(comparison.withheld) == ["list"]
    assert comparison.withheld["list"] == "hides text that nobody approved"  # which models read
    assert any("hides text that nobody approved: description" in line for line in comparison.lines())
    assert all(line.isprintable() for line in comparison.lines())
    assert not compare(pins.approved_tools(first, now, ["list"]), now)
