"""The private members of the SDK that are used: what they look like, and that there are no others."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from mcp.client.session import ClientSession
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher

from pflow_mcp_plugin.client import sdk_internals

CLIENT = Path(sdk_internals.__file__).parent
SESSION_CLASSES = (ClientSession, JSONRPCDispatcher)
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


def test_one_module_uses_private_members_and_each_is_pinned():
    pinned = {name for _, name in SIGNATURES}
    assert private_uses(Path(sdk_internals.__file__)) == pinned


def test_no_other_module_uses_a_private_member():
    others = [*CLIENT.rglob("*.py"), *(CLIENT.parent / "server").rglob("*.py")]
    others.remove(Path(sdk_internals.__file__))
    assert {path.name: used for path in others if (used := private_uses(path))} == {}


def private_uses(path: Path) -> set[str]:
    """Return the private members of the SDK's sessions that a module uses, and its private modules."""
    source = path.read_text(encoding="utf-8")
    used = set(re.findall(r"[\w)]\.(_[a-z]\w*)", source)) - set(
        re.findall(r"self\.(_\w+)(?:: [^=\n]+)? = ", source)
    )
    if "super()." not in source:
        used -= set(re.findall(r"def (_\w+)", source))
    return used & _SDK_NAMES | set(re.findall(r"^ *(?:from|import) (mcp\S*\._\S+)", source, re.MULTILINE))


def _private_names(owner: type) -> set[str]:
    """Return the private names that a class defines, and those that its constructor sets."""
    names = {*vars(owner), *re.findall(r"self\.(\w+)", inspect.getsource(owner))}
    return {name for name in names if name.startswith("_") and not name.startswith("__")}


_SDK_NAMES = set().union(*map(_private_names, SESSION_CLASSES))
