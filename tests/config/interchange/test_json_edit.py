"""Values put into JSON texts that people write."""

from __future__ import annotations

import json

import pyjson5
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin.config.document_text import JsonText

PATH = ("servers", "new")
TABLE = {"command": "a", "args": ["b"]}


def put(text, path=PATH, value=TABLE):
    edited = JsonText(text)
    edited.put(path, value)
    return str(edited)


def test_comments_order_and_layout_stay():
    before = """\
// mine
{
    "theme": "dark", // at night
    "servers": {
        // the old one
        "old": {"command": "x"}, /* } */
"""
    added = """\
        "new": {
            "command": "a",
            "args": [
                "b"
            ]
        }
"""
    after = """\
    },
    'last': [1, 2], // "servers": {
}
"""
    assert put(before + after) == before + added + after


def test_a_comment_behind_the_last_value_stays_there():
    text = '{\n  "servers": {\n    "old": 1 // one\n  }\n}\n'
    assert put(text, value=2) == '{\n  "servers": {\n    "old": 1, // one\n    "new": 2\n  }\n}\n'


def test_a_value_is_replaced_where_it_stands():
    text = '{"servers": {"new": {"a": "}"}, "b": 1}} // end'
    assert put(text, value=2) == '{"servers": {"new": 2, "b": 1}} // end'


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "{ }",
        "{\n}\n",
        "{// only\n}",
        '{"a": 1}',
        '{"a": 1,}',
        '{"servers": {}}',
        '{"servers": {/* none */}}',
        '{\r\n\t"servers": {\r\n\t\t"x": 1\r\n\t}\r\n}\r\n',
        '{"servers": 1, "servers": {"x": "\\"{"}}',
        "{servers: {x: 'it{'}}",
        '{"s\\u0065rvers": {"x": 1}}',
        '{"\\u00e9": "https://a/b", "servers": {"x": ["//", "/*"]}}',
    ],
)
def test_it_is_put_into_any_shape_of_object(text):
    wanted = pyjson5.decode(text)
    wanted.setdefault("servers", {})["new"] = TABLE
    assert pyjson5.decode(put(text)) == wanted


def test_lines_end_as_they_did():
    text = put('{\r\n\t"servers": {\r\n\t\t"x": 1\r\n\t}\r\n}\r\n')
    assert text.count("\n") == text.count("\r\n")
    assert '\r\n\t\t"new": {\r\n\t\t\t"command"' in text


@pytest.mark.parametrize("text", ["", "[]", "1", '{"servers": [1]}', '{"servers": ', "{", '{"a"', "//"])
def test_what_is_no_object_is_refused(text):
    with pytest.raises(LookupError):
        put(text)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(
    st.dictionaries(st.text(), JSON_VALUES, max_size=4),
    st.dictionaries(st.text(), JSON_VALUES, max_size=3),
    st.sampled_from([None, 2, "\t"]),
    JSON_VALUES,
)
def test_any_document_gets_the_value_and_keeps_the_rest(document, servers, indent, value):
    document = {**document, "servers": servers}
    text = json.dumps(document, indent=indent, ensure_ascii=False)
    assert json.loads(put(text, value=value)) == {**document, "servers": {**servers, "new": value}}
