"""Hidden text in what servers say."""

from __future__ import annotations

import pytest

from pflow_mcp_plugin.trust.hidden_text import Text, hidden_text, texts
from pflow_mcp_plugin.types import Tool


def found(text, kind="prose", where="description"):
    return [
        (finding.severity, finding.message) for finding in hidden_text("s", "t", [Text(where, text, kind)])
    ]


@pytest.mark.parametrize(
    ("text", "severity", "named"),
    [
        ("\x1b[8mobey", "error", "1 terminal escape"),
        ("\x9b8m", "error", "1 terminal escape"),
        ("a" + "\U000e0061\U000e0062", "error", "2 tag characters"),
        ("invoice\u202efdp.exe", "error", "1 direction override"),
        ("a\u2067b", "error", "1 direction control"),
        ("\U0001f600" + "\ufe01" * 9, "error", "9 variation selectors"),
        ("\u05e9\u05dc \u2068C++\u2069", "warning", "2 direction controls"),
        ("ze\u200bro", "warning", "1 invisible character"),
        ("be\x07ll", "warning", "1 control character"),
    ],
)
def test_what_is_hidden_is_named_and_only_what_is_unmistakable_is_an_error(text, severity, named):
    ((how, message),) = found(text)
    assert how == severity
    assert named in message
    assert message.isprintable()


def test_anything_hidden_in_a_name_is_an_error_and_a_value_only_warns():
    assert found("no\u200btes", kind="name")[0][0] == "error"
    assert found("\x1b", kind="value")[0][0] == "warning"


def test_text_that_hides_nothing_is_not_found():
    assert found("List files \U0001f4c1\ufe0f\nof \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645") == []


def test_every_text_of_a_tool_is_looked_at_with_its_place():
    deep = {"properties": {"x": {"anyOf": [{"title": "T"}, {"enum": ["E"], "pattern": "P"}]}}}
    tool = Tool(name="n", title="t", description="d", annotations={"title": "a", "x": 1}, input_schema=deep)
    seen = {where: (text, kind) for where, text, kind in texts(tool)}
    assert seen["name"] == ("n", "name")
    assert seen["annotations.title"] == ("a", "prose")
    assert seen["inputSchema.properties.x"] == ("x", "name")
    inside = [
        (each.text, each.kind)
        for each in texts(tool)
        if each.where.startswith("inputSchema.properties.x.anyOf.")
    ]
    assert {("T", "prose"), ("E", "value"), ("P", "value")} <= set(inside)


def test_a_deep_schema_is_read_to_its_end():
    schema: dict = {"description": "top"}
    for _ in range(300_000):
        schema = {"items": schema}
    assert list(texts(Tool(name="n", input_schema=schema)))[-1].text == "top"


def test_endless_hidden_text_is_an_error_whatever_it_is():
    ((how, message),) = found("\u200b" * 100_000)
    assert how == "error"
    assert "1,000 invisible characters" in message
