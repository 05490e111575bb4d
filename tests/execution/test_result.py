"""From what a tool answered to what a node writes."""

from __future__ import annotations

import json
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin.errors import CallFailed, McpError, Where
from pflow_mcp_plugin.exchange import CallResult
from pflow_mcp_plugin.execution.artifacts import Artifacts
from pflow_mcp_plugin.execution.result import read

WHERE = Where(server="s", tool="get_x")
PNG = b"\x89PNG not really"


def text(words):
    return {"type": "text", "text": words}


@pytest.fixture
def read_(tmp_path):
    def run(*blocks, limit=1024, **others):
        return read(CallResult(content=blocks, **others), WHERE, Artifacts(tmp_path / "files"), limit)

    return run


def test_a_reported_failure_wins_over_whatever_else_is_there(read_):
    with pytest.raises(CallFailed) as caught:
        read_(text("Bad credentials"), structured={"ok": 1}, has_structured=True, is_error=True)
    error = caught.value
    assert (error.message, error.ran, error.action) == ("Bad credentials", "ran", "auth_failed")
    assert (error.where.server, error.where.tool) == ("s", "get_x")


def test_a_failure_without_words_shows_what_there_is(read_):
    with pytest.raises(CallFailed, match=r'\{"code": 7\}'):
        read_(structured={"code": 7}, has_structured=True, is_error=True)
    with pytest.raises(CallFailed, match="Tool get_x on server s reports a failure"):
        read_(is_error=True)


def test_a_long_failure_is_cut(read_):
    with pytest.raises(CallFailed, match="50,000 characters") as caught:
        read_(text("x" * 50_000), is_error=True)
    assert len(caught.value.message) < 5000


@pytest.mark.parametrize("words", ["Unknown tool: get_x", "Tool 'get_x' not found"])
def test_a_server_that_does_not_know_the_tool_is_told_so(read_, words):
    with pytest.raises(McpError, match="Tool get_x not found on server s"):
        read_(text(words), is_error=True)
    with pytest.raises(CallFailed):
        read_(text("Tool get_xy not found"), is_error=True)


@pytest.mark.parametrize("value", [None, 0, False, "", "x", [1], {"a": 1}, 1.5])
def test_structured_content_of_any_kind_is_the_result(read_, value):
    reading = read_(text("ignored"), structured=value, has_structured=True)
    assert reading.value == value
    assert reading.natural == (value if isinstance(value, dict) else {})


def test_a_lone_wrapping_result_is_taken_off(read_):
    assert read_(structured={"result": [1]}, has_structured=True).value == [1]
    reading = read_(structured={"result": {"a": 1}}, has_structured=True)
    assert (reading.value, reading.natural) == ({"a": 1}, {"a": 1})
    assert read_(structured={"result": 1, "n": 2}, has_structured=True).value == {"result": 1, "n": 2}


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("plain", "plain"),
        (' {"a": 1}\n', {"a": 1}),
        ("[1, 2]", [1, 2]),
        ("3", "3"),
        ('"x"', '"x"'),
        ("null", "null"),
        ("{not json}", "{not json}"),
        ("[NaN]", "[NaN]"),
        ("[1e999]", "[1e999]"),
        ("[" * 100_000 + "]" * 100_000, None),
        ("", ""),
    ],
)
def test_one_text_is_parsed_only_when_it_is_an_object_or_a_list(read_, words, value):
    reading = read_(text(words), limit=10**6)
    assert reading.value == (words if value is None else value)
    assert reading.natural == {}


def test_several_blocks_are_a_list_and_none_is_none(read_):
    link = {"type": "resource_link", "uri": "file:///x", "name": "x"}
    embedded = {"type": "resource", "resource": {"uri": "a://b", "mimeType": "text/plain", "text": "hi"}}
    assert read_(text("a"), link, embedded, {"type": "new"}).value == [
        "a",
        link,
        embedded["resource"],
        {"type": "new"},
    ]
    assert read_().value is None


def test_binary_content_goes_to_private_files(read_):
    image = {"type": "image", "data": b64encode(PNG).decode(), "mimeType": "image/png"}
    blob = {"type": "resource", "resource": {"uri": "a://b", "blob": b64encode(b"").decode()}}
    sound = {"type": "audio", "data": b64encode(PNG).decode(), "mimeType": "../../etc/passwd"}
    shown, embedded, heard = read_(image, blob, sound).value
    assert shown == {
        "path": shown["path"],
        "mimeType": "image/png",
        "size": len(PNG),
        "sha256": sha256(PNG).hexdigest(),
    }
    path = Path(shown["path"])
    assert path.read_bytes() == PNG
    assert path.suffix == ".png"
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert (embedded["uri"], embedded["size"], embedded["mimeType"]) == (
        "a://b",
        0,
        "application/octet-stream",
    )
    assert Path(heard["path"]).parent == path.parent
    assert Path(heard["path"]).suffix == ".bin"


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "data": "***", "mimeType": "image/png"},
        {"type": "image", "data": "é", "mimeType": "image/png"},
        {"type": "image", "mimeType": "image/png"},
        {"type": "text"},
        {"type": "text", "text": 3},
        {"type": "resource"},
        {"type": "resource", "resource": {"uri": "x"}},
    ],
)
def test_a_result_that_makes_no_sense_says_that_the_tool_has_run(read_, block):
    with pytest.raises(CallFailed, match="cannot be read") as caught:
        read_(block)
    assert caught.value.ran == "ran"


def test_a_large_text_goes_to_a_file(read_):
    reading = read_(text("ä" * 600))
    assert reading.value["size"] == 1200
    assert Path(reading.value["path"]).read_text(encoding="utf-8") == "ä" * 600
    assert reading.value["mimeType"] == "text/plain"
    large = json.dumps(list(range(1000)))
    assert read_(text(large)).value["mimeType"] == "application/json"


def test_a_large_structure_goes_to_a_file_and_its_small_parts_stay(read_):
    value = {"count": 2, "rows": ["x" * 900, "y" * 900]}
    reading = read_(structured=value, has_structured=True)
    assert json.loads(Path(reading.value["path"]).read_text()) == value
    assert reading.natural["count"] == 2
    assert json.loads(Path(reading.natural["rows"]["path"]).read_text()) == value["rows"]


def spelled(value):
    return json.dumps(value, ensure_ascii=False)


@pytest.mark.parametrize("character", ["a", "ä", "語", "𝄞"])
@pytest.mark.parametrize(
    ("answer", "counted"),
    [
        (lambda words: {"content": (text(words),)}, lambda words: words),
        (lambda words: {"content": (text(spelled([words])),)}, lambda words: spelled([words])),
        (lambda words: {"content": (text(words), text("-"))}, lambda words: spelled([words, "-"])),
        (lambda words: {"structured": [words], "has_structured": True}, lambda words: spelled([words])),
    ],
    ids=["text", "json", "blocks", "structured"],
)
def test_the_limit_counts_bytes_whatever_the_characters(tmp_path, answer, counted, character):
    words = character * 300
    result, size = CallResult(**answer(words)), len(counted(words).encode())
    inline, in_file = (read(result, WHERE, Artifacts(tmp_path), limit).value for limit in (size, size - 1))
    assert words in inline
    assert in_file["size"] == size


@given(
    st.recursive(
        st.none() | st.text() | st.integers(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=10,
    )
)
def test_any_structure_within_the_limit_comes_through_unchanged(value):
    reading = read(
        CallResult(structured=value, has_structured=True), WHERE, Artifacts(Path("/nowhere")), 10**9
    )
    wrapped = isinstance(value, dict) and list(value) == ["result"]
    assert reading.value == (value["result"] if wrapped else value)


def test_a_result_that_cannot_be_kept_is_told_as_that_of_a_tool_that_ran(tmp_path):
    in_the_way = tmp_path / "files"
    in_the_way.write_text("a file where the folder should be")
    answer = CallResult(content=(text("x" * 99),))
    with pytest.raises(CallFailed, match=f"^Tool get_x on server s ran, .*{in_the_way}") as caught:
        read(answer, WHERE, Artifacts(in_the_way), 10)
    error = caught.value
    assert (error.ran, error.retryable, error.where.phase) == ("ran", False, "result")
    assert error.details["path"].startswith(str(in_the_way))
