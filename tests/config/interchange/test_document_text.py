"""Texts of config files, as their users leave them, and values put into them."""

from __future__ import annotations

import json
import os
import time

import pyjson5
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin.config import document_text
from pflow_mcp_plugin.config.document_text import JsonText
from pflow_mcp_plugin.storage import CorruptFile, StoreError

COMMENTED = """\
// Settings
{
  /* servers */ "mcpServers": {
    'a': {"command": "https://not/a//comment", },
  },
}
"""


def test_comments_trailing_commas_single_quotes_and_a_byte_order_mark_are_tolerated(tmp_path):
    document = document_text.parse(tmp_path / "mcp.json", b"\xef\xbb\xbf" + COMMENTED.encode())
    assert document == {"mcpServers": {"a": {"command": "https://not/a//comment"}}}


@pytest.mark.parametrize(
    ("name", "text", "line", "words"),
    [
        ("mcp.json", '{\n  "a": {"command": }\n}', 2, "not JSON: Expecting value"),
        ("mcp.json", '{ // one\n  "a": {"command": }\n}', 2, "not JSON: Expected a value, found '}'"),
        ("mcp.json", '// one\n{"a": "x', 2, "not JSON: Unclosed string"),
        ("mcp.json", '{"a": "x', 1, "not JSON: Unterminated string"),
        ("mcp.json", "", 1, "not JSON"),
        ("mcp.json", "[" * 100_000, 1, "not JSON: Maximum nesting level exceeded"),
        ("config.toml", "[mcp_servers.a]\ncommand = \n", 2, "not TOML"),
        ("config.yaml", "extensions:\n  a: [1\n  b: 2\n", 3, "not YAML"),
        ("config.yaml", "a: &x [1]\nb: *x\n", 2, "aliases are not supported"),
        ("config.yaml", "a: !!python/object/apply:os.system [ls]\n", 1, "not YAML"),
    ],
)
def test_a_corrupt_text_is_named_with_its_line(tmp_path, name, text, line, words):
    with pytest.raises(CorruptFile) as caught:
        document_text.parse(tmp_path / name, text.encode())
    assert caught.value.details["line"] == line
    assert name in caught.value.message
    assert words in caught.value.message
    assert "b'" not in caught.value.message


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("mcp.json", "[" * 120 + "]" * 120, "nested too deeply"),
        ("config.yaml", "[" * 120 + "]" * 120, "nested too deeply"),
        ("config.yaml", "- " * 50_000 + "a", "not YAML"),
        ("mcp.json", '{\n"a": "\xff"}', "line 2.*not UTF-8"),
        ("config.yaml", "a: 2026-99-99", "not YAML: month must be"),
        ("config.yaml", "a: \x01", "not YAML: .*special characters"),
    ],
)
def test_what_the_parser_takes_and_nobody_can_use_is_refused_too(tmp_path, name, text, words):
    with pytest.raises(CorruptFile, match=words):
        document_text.parse(tmp_path / name, text.encode("latin-1"))


def test_a_large_file_with_comments_is_read_in_linear_time(tmp_path):
    servers = ",\n".join(
        f'"server-{number}": {{"command": "npx", "args": ["-y"],}}' for number in range(8_000)
    )
    start = time.monotonic()
    document = document_text.parse(tmp_path / "mcp.json", f'// all\n{{"mcpServers": {{{servers}}}}}'.encode())
    assert len(document["mcpServers"]) == 8_000
    assert time.monotonic() - start < 10


def test_a_file_above_the_limit_is_refused_unread(tmp_path):
    path = tmp_path / "mcp.json"
    with path.open("wb") as file:
        file.truncate(document_text.LARGEST + 1)
    with pytest.raises(StoreError, match="larger than 64 MiB"):
        document_text.load(path)


def test_a_pipe_or_a_folder_is_no_file(tmp_path):
    assert document_text.load(tmp_path / "mcp.json") is None
    os.mkfifo(tmp_path / "pipe.json")
    for path, kind in ((tmp_path / "pipe.json", "named pipe, not a regular file"), (tmp_path, "directory")):
        with pytest.raises(StoreError, match=f"could not be read: .*{kind}"):
            document_text.load(path)
    with pytest.raises(StoreError, match="could not be read"):
        document_text.load(tmp_path / "pipe.json" / "mcp.json")


@pytest.mark.parametrize(
    ("form", "text", "has"),
    [
        ("json", '{"a": "https://x"}', False),
        ("json", '{"a": 1} // one', True),
        ("json", '{/* one */ "a": 1}', True),
        ("yaml", "a: 'x#y'\n", False),
        ("yaml", "a: 1 # one\n", True),
        ("toml", "a = 1 # yes", True),
        ("toml", "#", True),
        ("toml", "a = '# no \\'", False),
        ("toml", 'a = """\n# no "" \\""" # no\n"""', False),
        ("toml", 'a = "\\"# no"', False),
        ("toml", '"# no" = 1', False),
        ("toml", 'a = """x"""""\nb = "# no"', False),
    ],
)
def test_a_comment_is_told_from_a_hash_in_a_text(form, text, has):
    assert bool(document_text.comments(text, form)) is has


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


def test_a_value_is_replaced_where_it_stands_and_lines_end_as_they_did():
    text = '{"servers": {"new": {"a": "}"}, "b": 1}} // end'
    assert put(text, value=2) == '{"servers": {"new": 2, "b": 1}} // end'
    text = put('{\r\n\t"servers": {\r\n\t\t"x": 1\r\n\t}\r\n}\r\n')
    assert text.count("\n") == text.count("\r\n")
    assert '\r\n\t\t"new": {\r\n\t\t\t"command"' in text


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "{\n}\n",
        "{// only\n}",
        '{"a": 1,}',
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


@pytest.mark.parametrize("text", ["", "[]", '{"servers": [1]}', '{"servers": ', '{"a"', "//"])
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
