"""A server's claims count where the user trusts them, if they were approved and still hold."""

import pytest

from pflow_mcp_plugin.trust.tool_claims import effects, is_safe_to_repeat, purity, worse_hints
from pflow_mcp_plugin.types import Server, Tool, ToolRecord

EVERYTHING = ("untrusted_output", "destructive", "sends_data")


def server(**trust):
    return Server(name="a", command="b", **trust)


def record(approved, found=None):
    old = Tool(name="t", annotations=approved)
    return ToolRecord(
        server="a",
        node="mcp-a-t",
        tool=old,
        found=old if found is None else Tool(name="t", annotations=found),
    )


def of(transport="stdio", trusted=False, **annotations):
    return effects(
        record(annotations), Server(name="a", command="b", transport=transport, trust_readonly=trusted)
    )


@pytest.mark.parametrize(
    ("claim", "trusted", "expected"),
    [
        (True, True, "flow_safe"),
        (True, False, "impure"),
        (False, True, "impure"),
        (1, True, "impure"),
    ],
)
def test_a_tool_is_flow_safe_if_it_says_so_and_is_trusted(claim, trusted, expected):
    tool = record({"readOnlyHint": claim})
    assert purity(tool, server(trust_readonly=trusted)) == expected
    assert is_safe_to_repeat(tool, server(trust_readonly=trusted)) is (expected == "flow_safe")


def test_an_idempotent_tool_may_be_repeated_if_that_is_trusted_but_is_not_pure():
    tool = record({"idempotentHint": True})
    assert is_safe_to_repeat(tool, server(trust_idempotent=True))
    assert not is_safe_to_repeat(tool, server(trust_readonly=True))
    assert purity(tool, server(trust_idempotent=True)) == "impure"


@pytest.mark.parametrize(
    ("approved", "found"),
    [
        ({}, {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False}),
        ({"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False}, {}),
    ],
)
def test_a_claim_that_was_not_approved_or_is_no_longer_made_counts_for_nothing(approved, found):
    tool, trusting = record(approved, found), server(trust_readonly=True, trust_idempotent=True)
    assert purity(tool, trusting) == "impure"
    assert not is_safe_to_repeat(tool, trusting)
    assert effects(tool, trusting) == EVERYTHING


@pytest.mark.parametrize("kind", ["stdio", "uds"])
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


@pytest.mark.parametrize("claim", ["false", 0, None])
def test_a_hint_that_is_not_true_or_false_says_nothing(claim):
    assert of() == EVERYTHING  # as the specification assumes
    assert of(openWorldHint=claim, destructiveHint=claim) == EVERYTHING
    assert of(readOnlyHint=1) == of(readOnlyHint="true") == EVERYTHING


def test_trust_in_read_only_tools_changes_no_effect():
    assert of(trusted=True) == EVERYTHING
    assert of(trusted=True, readOnlyHint=True) == of(readOnlyHint=True)


@pytest.mark.parametrize(
    ("old", "new", "worse"),
    [
        ({"readOnlyHint": True}, {}, ["readOnlyHint"]),
        ({"destructiveHint": False}, {}, ["destructiveHint"]),
        ({"destructiveHint": False}, {"readOnlyHint": True}, []),
        ({"openWorldHint": False}, {"openWorldHint": True}, ["openWorldHint"]),
        ({}, {"destructiveHint": True, "openWorldHint": True, "readOnlyHint": False}, []),
        ({"idempotentHint": True}, {}, []),
    ],
)
def test_a_hint_is_worse_if_a_claim_of_harmlessness_is_lost(old, new, worse):
    assert list(worse_hints(old, new)) == worse
