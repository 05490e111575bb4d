"""The private members of the SDK that are used are there, and take what they are given."""

import inspect

import pytest
from mcp.client.session import ClientSession
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher

SIGNATURES = {
    (ClientSession, "_build_capabilities"): ["self", "version"],
    (ClientSession, "_absorb_tool_listing"): ["self", "result", "complete"],
    (JSONRPCDispatcher, "_dispatch_request"): ["self", "req", "metadata", "on_request", "sender_ctx"],
    (JSONRPCDispatcher, "_handle_request"): ["self", "req", "dctx", "scope", "on_request"],
    (JSONRPCDispatcher, "_dispatch_notification"): ["self", "msg", "metadata", "on_notify", "sender_ctx"],
    (JSONRPCDispatcher, "_resolve_pending"): ["self", "request_id", "outcome"],
}


@pytest.mark.parametrize(("owner", "name"), SIGNATURES)
def test_a_private_method_takes_what_it_is_given(owner, name):
    assert list(inspect.signature(getattr(owner, name)).parameters) == SIGNATURES[owner, name]
