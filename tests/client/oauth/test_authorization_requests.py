"""What goes to an authorization server, in all that a person and the runs after a login make of it."""

from __future__ import annotations

import attrs
import pytest

from pflow_mcp_plugin.client import Pool
from pflow_mcp_plugin.exchange import ToolCall

READ = ToolCall(server="notes", tool="read_note")
HEADERS = {
    "X-Gateway": "planted-gateway",
    "Authorization": "Bearer planted-header",
    "Cookie": "planted=1",
}


@pytest.fixture
def asked(visitor, authorization_server, tmp_path):
    """Sign in, call, refresh and sign in for more; return what came to the authorization server."""
    launch = visitor.launch
    visitor.launch = lambda **auth: attrs.evolve(
        launch(**auth), server=attrs.evolve(launch(**auth).server, headers=HEADERS)
    )
    visitor.sign_in()
    with Pool(pytest.fail, sign_in_folder=tmp_path / "oauth") as pool:
        assert pool.call(visitor.launch(), READ).content
        authorization_server.expire_access_tokens()
        assert pool.call(visitor.launch(), READ).content
    visitor.sign_in("notes:write")
    # The protected server asks it about tokens, too.
    return [each for each in authorization_server.requests() if each.endpoint != "introspect"]


def test_nothing_of_the_servers_headers_and_access_tokens_goes_there(asked, authorization_server):
    assert {each.endpoint for each in asked} == {"metadata", "register", "authorize", "token"}
    sent = str([(each.headers, each.query, each.form, each.json) for each in asked])
    assert "planted" not in sent
    tokens = [each["access"] for each in authorization_server.tokens()]
    assert len(tokens) == 3
    assert not [token for token in tokens if token in sent]


def test_every_request_for_a_code_or_tokens_names_the_resource(asked, protected_server):
    grants = [each.form["grant_type"] for each in asked if each.endpoint == "token"]
    assert grants == ["authorization_code", "refresh_token", "authorization_code"]
    named = [each.form or each.query for each in asked if each.endpoint in ("token", "authorize")]
    assert {fields["resource"] for fields in named} == {protected_server.url}
