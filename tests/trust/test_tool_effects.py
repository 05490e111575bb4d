"""What a tool does to data: as its server says, and as the specification says where it says nothing."""

from __future__ import annotations

import pytest

from pflow_mcp_plugin.trust.tool_effects import effects
from pflow_mcp_plugin.types import Server, Tool

EVERYTHING = ("untrusted_output", "destructive", "sends_data")


def of(transport="stdio", trusted=False, **annotations):
    server = Server(name="a", command="b", transport=transport, trust_readonly=trusted)
    return effects(Tool(name="t", annotations=annotations), server)


def test_a_tool_that_says_nothing_is_all_that_the_specification_assumes():
    assert of() == EVERYTHING


@pytest.mark.parametrize("kind", ["stdio", "uds", "pipe"])
def test_a_local_tool_is_what_it_says(kind):
    assert of(kind, openWorldHint=False) == ("destructive",)
    assert of(kind, openWorldHint=False, readOnlyHint=True) == ()
    assert of(kind, openWorldHint=False, destructiveHint=False) == ()
    assert of(kind, openWorldHint=True, readOnlyHint=True) == ("untrusted_output", "sends_data")
    assert of(kind, readOnlyHint=True, destructiveHint=True) == ("untrusted_output", "sends_data")


@pytest.mark.parametrize("kind", ["http", "sse"])
def test_a_remote_tool_is_open_to_the_world_whatever_it_says(kind):
    assert of(kind, openWorldHint=False) == EVERYTHING
    assert of(kind, openWorldHint=False, readOnlyHint=True) == ("untrusted_output", "sends_data")


@pytest.mark.parametrize("claim", ["false", 0, None, [], "no"])
def test_a_hint_that_is_not_true_or_false_says_nothing(claim):
    assert of(openWorldHint=claim, destructiveHint=claim) == EVERYTHING
    assert of(readOnlyHint=1) == of(readOnlyHint="true") == EVERYTHING


def test_trust_in_read_only_tools_changes_nothing_here():
    assert of(trusted=True) == EVERYTHING
    assert of(trusted=True, readOnlyHint=True) == of(readOnlyHint=True)
