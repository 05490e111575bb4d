"""A server's claims count only where the user trusts them."""

from __future__ import annotations

import pytest

from pflow_mcp_plugin.trust.purity import is_safe_to_repeat, purity
from pflow_mcp_plugin.types import Server, Tool


def server(**trust):
    return Server(name="a", command="b", **trust)


@pytest.mark.parametrize(
    ("claim", "trusted", "expected"),
    [
        (True, True, "flow_safe"),
        (True, False, "impure"),
        (False, True, "impure"),
        (None, True, "impure"),
        ("true", True, "impure"),
        (1, True, "impure"),
    ],
)
def test_a_tool_is_flow_safe_if_it_says_so_and_is_trusted(claim, trusted, expected):
    tool = Tool(name="t", annotations={} if claim is None else {"readOnlyHint": claim})
    assert purity(tool, server(trust_readonly=trusted)) == expected
    assert is_safe_to_repeat(tool, server(trust_readonly=trusted)) is (expected == "flow_safe")


def test_an_idempotent_tool_may_be_repeated_if_that_is_trusted_but_is_not_pure():
    tool = Tool(name="t", annotations={"idempotentHint": True})
    assert is_safe_to_repeat(tool, server(trust_idempotent=True))
    assert not is_safe_to_repeat(tool, server(trust_readonly=True))
    assert purity(tool, server(trust_idempotent=True)) == "impure"
