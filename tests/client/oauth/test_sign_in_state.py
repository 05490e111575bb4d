"""How long the token of a sign-in is good."""

from __future__ import annotations

import pytest

from pflow_mcp_plugin.client.oauth.sign_in_state import Tokens


@pytest.mark.parametrize(
    ("issued_at", "expires_at", "stale_at"), [(0, 1000, 940), (960, 1000, 990), (2000, 1000, 1000)]
)
def test_a_token_is_refreshed_a_minute_or_a_quarter_of_its_life_before_its_end(
    issued_at, expires_at, stale_at
):
    tokens = Tokens(access="a", issued_at=issued_at, expires_at=expires_at)
    assert (tokens.is_fresh(stale_at - 1), tokens.is_fresh(stale_at)) == (True, False)
    assert (tokens.is_valid(999), tokens.is_valid(1000)) == (True, False)
    assert Tokens(access="a").is_fresh(10**9)
    assert Tokens(access="a").is_valid(10**9)
