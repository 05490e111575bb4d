"""Both eras of the protocol: what is settled at the start, and what servers ask and say later."""

import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import attrs
import pytest

from pflow_mcp_plugin.client import Pool
from pflow_mcp_plugin.errors import CallFailed, ConnectionFailed
from pflow_mcp_plugin.exchange import CallResult, Launch, ToolCall

FORM = {
    "method": "elicitation/create",
    "params": {
        "message": "Which colour?",
        "requestedSchema": {"type": "object", "properties": {"colour": {"type": "string", "default": "red"}}},
    },
}
QUESTION = {"role": "user", "content": {"type": "text", "text": "Hi"}}
SAMPLING = {"method": "sampling/createMessage", "params": {"messages": [QUESTION], "maxTokens": 10}}

# A tool that asks once, and answers with what it got.
ASKS_IN_ITS_RESULT = """
if "inputResponses" in params:
    got = [params["inputResponses"], params.get("requestState")]
    reply({"content": [{"type": "text", "text": json.dumps(got)}]})
else:
    question = params["arguments"]
    reply({"resultType": "input_required", "inputRequests": {"q": question}, "requestState": "opaque {"})
"""
ASKS_BY_A_REQUEST = """
raw(json.dumps({"jsonrpc": "2.0", "id": "q", **request["params"]["arguments"]}) + chr(10))
answer = json.loads(sys.stdin.readline())
reply({"content": [{"type": "text", "text": json.dumps(answer.get("result", answer.get("error")))}]})
"""


Modern = Callable[..., Launch]


@pytest.fixture
def modern(scripted: Callable[..., Launch]) -> Modern:
    """Return a launch of a server of 2026-07-28 that does what the script says."""
    return partial(scripted, start="modern()")


@pytest.fixture
def listing(modern: Modern) -> Modern:
    """Return that of one whose list of tools has these cache hints, and says how often it was asked for."""

    def make(hints: Mapping[str, Any]) -> Launch:
        tool = "{'name': 'act', 'inputSchema': {'type': 'object'}, 'description': str(state['lists'])}"
        return modern(f"""
if request["method"] == "tools/list":
    state["lists"] = state.get("lists", 0) + 1
    reply({{"tools": [{tool}], **{hints!r}}})
else:
    changed()
    reply({{"content": []}})
""")

    return make


def act(pool: Pool, launch: Launch, arguments: Mapping[str, Any] | None = None) -> CallResult:
    return pool.call(launch, ToolCall(server="odd", tool="act", arguments=arguments or {}))


def told(result: CallResult) -> Any:
    """What the tool says that it got."""
    return json.loads(result.content[0]["text"])


@pytest.mark.parametrize(
    ("protocol", "era", "version"),
    [
        ("handshake", "handshake", "2025-11-25"),
        ("2026-07-28", "modern", "2026-07-28"),
        ("2025-06-18", "handshake", "2025-06-18"),
    ],
)
def test_the_bundled_server_speaks_every_version_that_is_insisted_on(pool, demo, protocol, era, version):
    launch = attrs.evolve(demo, server=attrs.evolve(demo.server, protocol=protocol))
    listing = pool.list_tools(launch)
    assert (listing.info.era, listing.info.protocol) == (era, version)
    call = ToolCall(server="demo", tool="add", arguments={"a": 1, "b": 2})
    assert pool.call(launch, call).structured == {"result": 3}


@pytest.mark.parametrize("protocol", ["2025-06-18", "2026-07-28"])
def test_a_version_that_the_server_does_not_speak_is_not_given_up_on_silently(scripted, pool, protocol):
    with pytest.raises(ConnectionFailed) as caught:
        act(pool, scripted(protocol=protocol))
    versions = f"server odd offers 2025-11-25, pflow requires {protocol}"
    assert caught.value.message == f"MCP protocol version not supported: {versions}"
    assert caught.value.where.phase == "handshake"
    assert 'set protocol = "auto"' in caught.value.suggestions[0]


NAMES_ONE = (-32602, "Unsupported protocol version", {"supported": ["2024-11-05"]})


@pytest.mark.parametrize(
    ("protocol", "refusal", "offers"),
    [
        *((protocol, NAMES_ONE, "offers 2024-11-05") for protocol in ("auto", "handshake", "2025-11-25")),
        (
            "auto",
            (-32022, "No", {"supported": ["1999-01-01", "2024-11-05"]}),
            "offers 1999-01-01, 2024-11-05",
        ),
        ("auto", (-32022, "No"), "does not say which it supports"),
        (
            "auto",
            (-32000, "Unsupported protocol version (supported versions: 2024-11-05)"),
            "offers 2024-11-05",
        ),
    ],
)
def test_a_server_that_refuses_our_version_is_told_with_those_it_names(
    scripted, pool, protocol, refusal, offers
):
    with pytest.raises(ConnectionFailed) as caught:
        act(pool, scripted(start=f"state['refusal'] = {refusal!r}", protocol=protocol))
    versions = f"server odd {offers}, pflow requires 2025-11-25"
    assert caught.value.message == f"MCP protocol version not supported: {versions}"
    if protocol == "auto" and "2024" in offers:
        assert caught.value.suggestions == ('set protocol = "2024-11-05" for server odd',)
    else:
        accepted = "pflow accepts 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25, 2026-07-28"
        assert caught.value.suggestions[0].endswith(accepted)


@pytest.mark.parametrize("discovered", [{}, {"supportedVersions": ["1999-01-01"], "capabilities": {}}])
def test_a_server_whose_answer_to_the_probe_is_of_no_use_is_tried_with_the_handshake(
    scripted, pool, discovered
):
    launch = scripted(start=f"state['server/discover'] = {discovered!r}")
    act(pool, launch)
    assert (pool.info(launch).era, pool.info(launch).name) == ("handshake", "scripted")


@pytest.mark.parametrize("protocol", ["handshake", "2025-06-18"])
def test_a_server_without_the_handshake_is_asked_which_version_it_speaks(modern, pool, protocol):
    no_handshake = "fail(-32601, 'Method not found')"
    words = "^MCP protocol version not supported: server odd offers 2026-07-28"
    with pytest.raises(ConnectionFailed, match=words):
        act(pool, modern(no_handshake, protocol=protocol))


@pytest.mark.parametrize("protocol", ["auto", "2025-06-18"])
def test_invalid_params_of_the_handshake_that_name_no_version_are_no_matter_of_versions(
    scripted, pool, protocol
):
    refuses = "state['refusal'] = (-32602, 'clientInfo is wrong')"
    with pytest.raises(ConnectionFailed, match=r"^Invalid params: server odd: clientInfo is wrong"):
        act(pool, scripted(start=refuses, protocol=protocol))


@pytest.mark.parametrize("code", [-32022, -32601])
def test_a_server_that_gave_up_the_handshake_since_it_was_synced_is_discovered(modern, pool, code):
    script = f"""
assert request["method"] in ("initialize", "tools/call"), "what is remembered comes first"
if request["method"] == "initialize":
    fail({code}, "no")
else:
    reply({{"content": []}})
"""
    launch = attrs.evolve(modern(script), era="handshake")
    act(pool, launch)
    assert pool.info(launch).era == "modern"


def test_a_server_that_cannot_do_either_is_told_by_its_refusal_of_the_handshake(scripted, pool):
    launch = scripted(start="state['initialize'] = {**state['initialize'], 'protocolVersion': '1999-01-01'}")
    with pytest.raises(ConnectionFailed, match="1999-01-01"):
        pool.info(attrs.evolve(launch, era="handshake"))


def test_a_form_in_a_result_is_declined_and_the_call_goes_on(modern, pool, warnings_seen):
    for _ in range(2):
        answers, state = told(act(pool, modern(ASKS_IN_ITS_RESULT), FORM))
        assert answers["q"]["action"] == "decline"
        assert state == "opaque {"
    (warning,) = warnings_seen
    assert "server odd asks for input: 'Which colour?'; declined" in warning


def test_servers_are_not_told_of_elicitation(modern, pool):
    script = "reply({'content': [], 'structuredContent': params['_meta']})"
    meta = act(pool, modern(script)).structured
    assert "elicitation" not in meta["io.modelcontextprotocol/clientCapabilities"]


def test_a_question_for_roots_gets_none(modern, scripted, pool):
    roots = {"method": "roots/list"}
    assert told(act(pool, modern(ASKS_IN_ITS_RESULT), roots))[0]["q"]["roots"] == []
    assert told(act(pool, scripted(ASKS_BY_A_REQUEST), roots))["roots"] == []


def test_sampling_in_a_result_cannot_be_declined_and_fails_the_call(modern, pool):
    with pytest.raises(CallFailed, match="asks for the use of a language model, which a run cannot provide"):
        act(pool, modern(ASKS_IN_ITS_RESULT), SAMPLING)


def test_a_server_that_only_gives_its_state_is_called_again(modern, pool):
    script = """
rounds = int(params.get("requestState", 0))
if rounds < 3:
    reply({"resultType": "input_required", "requestState": str(rounds + 1)})
else:
    reply({"content": [{"type": "text", "text": json.dumps(sorted(params))}]})
"""
    assert told(act(pool, modern(script))) == ["_meta", "arguments", "name", "requestState"]


def test_a_server_that_asks_for_ever_is_given_up(modern, pool):
    script = """
reply({"resultType": "input_required", "inputRequests": {"q": params["arguments"]}, "requestState": "s"})
"""
    with pytest.raises(CallFailed, match="asks for input again and again"):
        act(pool, modern(script), FORM)


def test_a_server_that_is_never_done_meets_the_deadline_of_the_whole_call(modern, pool):
    script = "reply({'resultType': 'input_required', 'requestState': 's'})"
    begun = time.monotonic()
    with pytest.raises(CallFailed, match="call_timeout_max"):
        act(pool, modern(script, call_timeout_max=1.5))
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize(
    ("hints", "asked"),
    [
        ({"ttlMs": 60_000, "cacheScope": "private"}, "1"),
        ({"ttlMs": "soon", "cacheScope": "mine"}, "2"),
        ({}, "2"),
    ],
)
def test_a_list_is_asked_for_again_unless_it_says_that_it_holds(listing, pool, hints, asked):
    launch = listing(hints)
    assert pool.list_tools(launch).tools[0].description == "1"
    assert pool.list_tools(launch).tools[0].description == asked


def test_a_list_that_the_server_calls_changed_is_asked_for_again(listing, pool):
    launch = listing({"ttlMs": 60_000, "cacheScope": "private"})
    assert pool.list_tools(launch).tools[0].description == "1"
    assert pool.changed_lists() == []
    act(pool, launch)
    assert [changed.server.name for changed in pool.changed_lists()] == ["odd"]
    assert pool.list_tools(launch).tools[0].description == "2"


def test_a_tool_whose_header_claims_are_invalid_is_left_out_and_named(modern, pool):
    schema = {"type": "object", "properties": {"a": {"type": "object", "x-mcp-header": "A"}}}
    script = f"""
reply({{"tools": [{{"name": "bad", "inputSchema": {schema!r}}}], "ttlMs": 0, "cacheScope": "private"}})
"""
    listed = pool.list_tools(modern(script))
    assert [name for name, _ in listed.skipped] == ["bad"]
    assert listed.tools == ()
