"""A list of tools, put together from its pages, without the secrets of its server's config."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import attrs
import pytest

from pflow_mcp_plugin.client.tool_lists import ToolPages, redacted_info, redacted_listing, redactor_of
from pflow_mcp_plugin.exchange import Launch, Listing
from pflow_mcp_plugin.redaction import Redactor
from pflow_mcp_plugin.types import Server, ServerInfo, Tool

SECRET = "planted-secret-0123456789"
OBJECT = {"a": [SECRET]}
HIDDEN = {"a": ["***"]}


@pytest.mark.parametrize(
    "field", ["title", "description", "input_schema", "output_schema", "annotations", "meta"]
)
def test_a_secret_is_redacted_wherever_a_tool_repeats_it(field):
    said, hidden = (SECRET, "***") if field in ("title", "description") else (OBJECT, HIDDEN)
    tools = (Tool(name="plain"), Tool(name="told", **{field: said}))
    listing = redacted_listing(Listing(info=ServerInfo(), tools=tools), Redactor([SECRET]))
    assert listing.tools == (Tool(name="plain"), Tool(name="told", **{field: hidden}))
    assert listing.skipped == ()
    (note,) = listing.notes
    assert note.startswith("what it says about told contains a secret")


def test_a_tool_that_could_not_be_called_without_a_secret_is_skipped():
    schema = {"properties": {SECRET: {}}}
    tools = (Tool(name=SECRET), Tool(name="asks", input_schema=schema), Tool(name="fine"))
    skipped = ((f"also {SECRET}", SECRET),)
    listing = Listing(info=ServerInfo(), tools=tools, skipped=skipped, notes=(SECRET,))
    shown = redacted_listing(listing, Redactor([SECRET]))
    assert shown.tools == (Tool(name="fine"),)
    assert [name for name, _ in shown.skipped] == ["also ***", "***", "asks"]
    assert "the name of an argument" in shown.skipped[2][1]
    assert shown.notes == ("***",)


@pytest.mark.parametrize("field", ["name", "version", "instructions", "capabilities", "protocol"])
def test_a_secret_is_redacted_wherever_a_server_repeats_it(field):
    said = OBJECT if field == "capabilities" else SECRET
    info = ServerInfo(**{field: said})
    shown, notes = redacted_info(info, Redactor([SECRET]))
    if field == "protocol":  # one of the known versions
        assert (shown, notes) == (info, ())
        return
    assert shown == ServerInfo(**{field: HIDDEN if said == OBJECT else "***"})
    assert len(notes) == 1
    assert "what it says about itself contains a secret" in notes[0]


def test_short_and_common_values_of_a_config_are_words_that_any_tool_may_use():
    launch = Launch(server=Server(name="odd"), secrets=("readall", "readmore", "password", "Postgres"))
    assert redactor_of(launch).known == {"readmore"}


def test_a_launch_made_from_another_redacts_the_secrets_of_both():
    launch = Launch(server=Server(name="odd"), secrets=("first-secret",))
    launch.learn(["learned-secret"])
    other = attrs.evolve(launch, secrets=("second-secret",))
    assert other.redactor.known == {"first-secret", "learned-secret", "second-secret"}


def pages(*raw: Mapping[str, Any]) -> ToolPages:
    left = list(raw)

    async def request(cursor: str | None) -> tuple[str | None, Mapping[str, Any]]:
        page = left.pop(0)
        return (str(len(left)) if left else None), page

    collected = ToolPages()
    asyncio.run(collected.collect(request))
    return collected


def test_tools_that_share_a_name_are_left_out_and_named():
    tools, skipped = pages(
        {"tools": [{"name": "a"}, {"name": "b"}]}, {"tools": [{"name": "b"}, {"name": "b", "title": "B"}]}
    ).tools()
    assert [tool.name for tool in tools] == ["a"]
    assert skipped == [("b", "3 tools have this name; all are skipped")]


def test_all_that_a_server_says_of_a_tool_is_kept():
    same = {"name": "a", "description": "A", "title": "The A", "annotations": {"readOnlyHint": True}}
    takes, gives, meta = {"type": "object"}, {"type": "object", "properties": {}}, {"origin": "here"}
    schemas = {"inputSchema": takes, "outputSchema": gives}
    said = {**same, **schemas, "_meta": meta, "execution": {"taskSupport": "optional"}}
    (tool,), _ = pages({"tools": [said]}).tools()
    kept = {"input_schema": takes, "output_schema": gives, "meta": meta, "task_support": "optional"}
    assert tool == Tool(**same, **kept)


def test_ten_thousand_tools_take_no_longer_than_ten_thousand_tools():
    collected = pages({"tools": [{"name": f"t{number}"} for number in range(10_000)]})
    started = time.process_time()
    tools, _ = collected.tools()
    assert len(tools) == 10_000
    assert time.process_time() - started < 0.8


@pytest.mark.parametrize(
    ("hint", "seconds"),
    [(5000, 5), (10**400, 3600), (float("inf"), 3600), (float("nan"), 0), (-1, 0), ("5000", 0), (None, 0)],
)
def test_a_list_holds_for_an_hour_at_most_whatever_its_server_says(hint, seconds):
    assert pages({"tools": [], "ttlMs": hint}).fresh_seconds == seconds


def test_what_a_tool_says_of_tasks_is_read_and_nonsense_is_not():
    required, optional = {"taskSupport": "required"}, {"taskSupport": "optional"}
    said = [None, {}, required, {"taskSupport": 1}, "required", [], optional]
    raw = [{"name": f"t{number}", "execution": execution} for number, execution in enumerate(said)]
    tools, _ = pages({"tools": raw}).tools()
    assert [tool.task_support for tool in tools] == ["", "", "required", "", "", "", "optional"]
