"""What is kept of a sign-in, and how long its token is good."""

from __future__ import annotations

import pytest

from pflow_mcp_plugin.client.oauth.sign_in_state import (
    AuthorizationServer,
    Registration,
    SignIn,
    Tokens,
    as_json,
    from_json,
)


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


SIGN_IN = SignIn(
    server="web",
    server_url="https://x.example/mcp",
    resource="https://x.example",
    authorization_server=AuthorizationServer(
        issuer="https://a.example",
        token_endpoint="https://a.example/token",
        scopes_supported=("read",),
        client_id_metadata_document_supported=True,
    ),
    registration=Registration(client_id="me", client_secret="s", redirect_uris=("r",), expires_at=9.0),
    required_scopes=("read",),
    tokens=Tokens(access="a", refresh="b", expires_at=5.0, issued_at=1.0, scopes=("read", "write")),
    signed_in_at=3.0,
)


def test_a_sign_in_is_read_as_it_was_written():
    assert from_json(as_json(SIGN_IN)) == SIGN_IN
    assert SIGN_IN.secrets == ("s", "a", "b")
    without = {**as_json(SIGN_IN), "tokens": None, "required_scopes": None, "signed_in_at": None}
    found = from_json(without)
    assert (found.tokens, found.required_scopes, found.signed_in_at) == (None, (), 0.0)
    assert found.secrets == ("s",)


@pytest.mark.parametrize(
    ("part", "changed", "read"),
    [
        ("tokens", {"expires_at": -1}, ("expires_at", None)),
        ("tokens", {"expires_at": 253_402_300_800}, ("expires_at", None)),
        ("tokens", {"expires_at": 253_402_300_799}, ("expires_at", 253_402_300_799)),
        ("tokens", {"expires_at": True}, ("expires_at", None)),
        ("tokens", {"issued_at": "x"}, ("issued_at", 0.0)),
        ("tokens", {"refresh": None}, ("refresh", "")),
        ("tokens", {"scopes": ["a", 1]}, ("scopes", ("a",))),
        ("authorization_server", {"client_id_metadata_document_supported": 1},
         ("client_id_metadata_document_supported", False)),
    ],
)  # fmt: skip
def test_times_and_options_that_make_no_sense_are_left_out(part, changed, read):
    value = as_json(SIGN_IN)
    value[part] = {**value[part], **changed}
    assert getattr(getattr(from_json(value), part), read[0]) == read[1]


@pytest.mark.parametrize(
    ("part", "changed"),
    [
        ("tokens", {"refresh": 3}),
        ("registration", {"client_id": ""}),
        ("registration", {"client_id": None}),
        ("authorization_server", {"issuer": 1}),
    ],
)
def test_a_sign_in_without_what_it_needs_is_refused(part, changed):
    value = as_json(SIGN_IN)
    value[part] = {**value[part], **changed}
    with pytest.raises(ValueError, match="is not a string"):
        from_json(value)
    with pytest.raises(ValueError, match="is not an object"):
        from_json({**value, part: "x"})
    with pytest.raises(ValueError, match="server is not a string"):
        from_json({**value, "server": ""})
