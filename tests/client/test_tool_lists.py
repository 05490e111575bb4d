"""What a server says about itself and its tools, without the secrets of its config."""

from __future__ import annotations

import attrs
import pytest

from pflow_mcp_plugin.client.tool_lists import redacted_info, redacted_listing, redactor_of
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
