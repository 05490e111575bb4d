"""From what a tool answered to what a node writes."""

import os
import re
from base64 import b64encode, encodebytes, urlsafe_b64encode
from hashlib import sha256
from pathlib import Path

import pytest

from pflow_mcp_plugin.errors import CallFailed, McpError, Where
from pflow_mcp_plugin.exchange import CallResult, Launch
from pflow_mcp_plugin.execution.result import read, write_artifact
from pflow_mcp_plugin.schemas.schema_reader import ResultForm, result_form
from pflow_mcp_plugin.types import Server

WHERE = Where(server="s", tool="get_x")
LAUNCH = Launch(server=Server(name="s"))
PNG = b"\x89PNG not really"


def text(words):
    return {"type": "text", "text": words}


def image(content=PNG, **more):
    return {"type": "image", "data": b64encode(content).decode(), "mimeType": "image/png", **more}


def reference(content, mime_type, path):
    return {"path": path, "mimeType": mime_type, "size": len(content), "sha256": sha256(content).hexdigest()}


@pytest.fixture
def read_(tmp_path):
    def run(*blocks, limit=1024, schema=None, **others):
        result = CallResult(content=blocks, **others)
        return read(result, WHERE, tmp_path / "files", limit, LAUNCH, result_form(schema))

    return run


GAVE_UP = "it gave up before any timeout of pflow had passed: ask it for less, or raise"
REPLACE = "replace them with valid ones"
REMOTE = {"transport": "http", "url": "https://s.example.com/mcp"}


@pytest.mark.parametrize(
    ("words", "config", "step"),
    [
        (
            "401 Unauthorized",
            {"env": {"GITHUB_TOKEN": "ghp_x", "LOG_LEVEL": "info"}},
            "check GITHUB_TOKEN in env of server s (servers.toml): it was refused, or may not do this",
        ),
        (
            "403 Forbidden",
            {"args": ("--api-key", "abcdef")},
            "check the token in args of server s (servers.toml): it was refused, or may not do this",
        ),
        ("403 Forbidden", {}, "if it needs a token, set it in env of server s (servers.toml)"),
        (
            "invalid API key",
            {**REMOTE, "auth": {"type": "bearer", "token_env": "S_TOKEN"}},
            "its token was refused; set the variable S_TOKEN to a valid one",
        ),
        (
            "401",
            {**REMOTE, "headers": {"Authorization": "x"}},
            f"the credentials in headers of server s (servers.toml) were refused; {REPLACE}",
        ),
        ("missing_scope", {**REMOTE, "auth": {"type": "oauth"}}, "run: pflow mcp login s"),
        ("rate limit exceeded, retry after 2 minutes", {}, "try again after 120 s"),
        ("429 Too Many Requests", {}, "try again later"),
        ("timed out", {}, f"{GAVE_UP} its own limit; pflow mcp info mcp-s-get_x shows its parameters"),
        (
            "timed out",
            {"env": {"S_TIMEOUT_MS": "10"}},
            f"{GAVE_UP} S_TIMEOUT_MS in env of server s; pflow mcp info mcp-s-get_x shows its parameters",
        ),
        (
            "waited: sleep and wait 9 seconds",
            {},
            "the message comes from the tool; pflow mcp info mcp-s-get_x shows its parameters",
        ),
        ("no", {}, "the message comes from the tool; pflow mcp info mcp-s-get_x shows its parameters"),
    ],
)
def test_a_reported_failure_has_the_next_step_of_its_action(tmp_path, words, config, step):
    launch = Launch(server=Server(name="s", **config), config_file=Path("servers.toml"))
    answer = CallResult(content=(text(words),), is_error=True)
    with pytest.raises(CallFailed) as caught:
        read(answer, WHERE, tmp_path, 1024, launch, ResultForm())
    assert caught.value.suggestions == (step,)
    assert caught.value.retry_after == (120 if "minutes" in words else None)


def test_a_failure_without_words_shows_what_there_is(read_):
    with pytest.raises(CallFailed, match=r'\{"code": "é"\}'):
        read_(text(" "), structured={"code": "é"}, has_structured=True, is_error=True)
    with pytest.raises(CallFailed, match="Tool get_x on server s reports a failure"):
        read_(is_error=True)


def test_the_texts_of_a_failure_are_its_lines(read_):
    with pytest.raises(CallFailed) as caught:
        read_(text(""), text(" one "), text("two\n"), text(3), text(""), is_error=True)
    assert caught.value.message == "one\ntwo"


def test_a_long_failure_is_cut(read_):
    with pytest.raises(CallFailed, match="50,000 characters") as caught:
        read_(text("x" * 50_000), is_error=True)
    assert len(caught.value.message) < 5000


@pytest.mark.parametrize("words", ["Unknown tool: get_x", "Tool 'get_x' not found"])
def test_a_server_that_does_not_know_the_tool_is_told_so(read_, words):
    with pytest.raises(McpError, match="Tool get_x not found on server s") as caught:
        read_(text(words), is_error=True)
    error = caught.value
    assert (error.kind, error.action, error.where) == ("not_found", "resource_missing", WHERE)
    assert error.suggestions == ("Run: pflow mcp sync s",)
    with pytest.raises(CallFailed):
        read_(text("Tool get_xy not found"), is_error=True)


WRAPPED = {"type": "object", "properties": {"result": {}}, "required": ["result"]}
WITH_WARNINGS = {"type": "object", "properties": {"result": {}, "warnings": {"type": "array"}}}


@pytest.mark.parametrize("schema", [WRAPPED, {"$ref": "#/$defs/W", "$defs": {"W": WRAPPED}}, None])
def test_a_wrapping_result_is_taken_off_where_it_is_declared_or_nothing_is(read_, schema):
    assert read_(structured={"result": [1]}, has_structured=True, schema=schema).value == [1]
    reading = read_(structured={"result": {"a": 1}}, has_structured=True, schema=schema)
    assert (reading.value, reading.natural) == ({"a": 1}, {"a": 1})


def test_what_stands_beside_a_declared_wrapping_is_not_lost(read_):
    reading = read_(structured={"result": 1, "n": 2}, has_structured=True, schema=WRAPPED)
    assert (reading.value, reading.natural) == (1, {"n": 2})
    reading = read_(structured={"n": 2}, has_structured=True, schema=WRAPPED)
    assert (reading.value, reading.natural) == ({"n": 2}, {"n": 2})
    assert read_(structured={}, has_structured=True, schema=WRAPPED).value is None
    assert read_(structured=[1], has_structured=True, schema=WRAPPED).value == [1]


@pytest.mark.parametrize("schema", [WITH_WARNINGS, {"type": "object"}, True])
@pytest.mark.parametrize(
    "value", [{"result": 1}, {"result": 1, "warnings": []}, {"result": {"result": 1}}, {}]
)
def test_a_result_that_is_not_declared_as_a_wrapping_stays_as_it_is(read_, schema, value):
    reading = read_(structured=value, has_structured=True, schema=schema)
    assert (reading.value, reading.natural) == (value, value)


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
        ('[{"a": 1, "a": 2}]', None),
        ("[3.3333333333333333333]", [10 / 3]),
        ("[1.10, 0.30000000000000004, 0.10000000000000001, 5E-324]", [1.1, 0.30000000000000004, 0.1, 5e-324]),
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
    blocks = ["a", link, embedded["resource"], {"type": "new"}]
    assert read_(text("a"), link, embedded, {"type": "new"}).value == blocks
    assert read_(text("a"), text("b")).value == ["a", "b"]
    assert read_().value is None


def test_binary_content_goes_to_private_files(read_):
    blob = {"type": "resource", "resource": {"uri": "a://b", "blob": b64encode(b"").decode()}}
    sound = {"type": "audio", "data": b64encode(PNG).decode(), "mimeType": "../../etc/passwd"}
    shown, embedded, heard = read_(image(), blob, sound).value
    assert shown == reference(PNG, "image/png", shown["path"])
    path = Path(shown["path"])
    assert path.read_bytes() == PNG
    assert path.suffix == ".png"
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    empty = reference(b"", "application/octet-stream", embedded["path"])
    assert embedded == {"uri": "a://b", **empty}
    assert Path(heard["path"]).parent == path.parent
    assert Path(heard["path"]).suffix == ".bin"


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "data": "***", "mimeType": "image/png"},
        {"type": "image", "data": "é", "mimeType": "image/png"},
        {"type": "text"},
        {"type": "text", "text": 3},
        {"type": "resource", "resource": {"uri": "x"}},
    ],
)
@pytest.mark.parametrize("structure", [{}, {"structured": 3, "has_structured": True}])
def test_a_malformed_block_is_named_and_stays_as_it_is_and_loses_nothing_beside_it(read_, block, structure):
    reading = read_(text("17"), block, **structure)
    assert (reading.content_blocks if structure else reading.value) == ["17", block]
    assert re.fullmatch(r"Tool get_x on server s returned .*(base64|without).*", *reading.warnings)


@pytest.mark.parametrize(
    "encode",
    [
        encodebytes,
        lambda it: b64encode(it).rstrip(b"="),
        urlsafe_b64encode,
        lambda it: b64encode(it) + b"\r\n",
    ],
)
def test_base64_with_line_ends_without_padding_or_for_urls_is_read(read_, encode):
    content = b"\xff\xfe\xff" * 21 + b"x"  # two characters of padding, and both that differ in URLs
    data = encode(content).decode()
    alone = read_({"type": "image", "data": data, "mimeType": "image/png"})
    inside = read_(structured=[image() | {"data": data}], has_structured=True)
    assert [alone.value] == inside.content_blocks == [reference(content, "image/png", alone.value["path"])]
    assert (Path(alone.value["path"]).read_bytes(), alone.warnings) == (content, [])


@pytest.mark.parametrize(
    ("mime_type", "suffix"),
    [
        ("TEXT/Plain ; charset=utf-8", ".txt"),
        ("application/json", ".json"),
        ("text/csv", ".csv"),
        ("x/y", ".bin"),
        ("image/../../../outside", ".bin"),
        ("image/png\0", ".bin"),
        ("/etc/passwd", ".bin"),
        ("image/" + "x" * 999, ".bin"),
    ],
)
def test_a_file_is_named_by_its_content_and_kind_and_kept_while_it_is_used(tmp_path, mime_type, suffix):
    path = Path(write_artifact(tmp_path, b"x", mime_type)["path"])
    assert (path.parent, path.suffix) == (tmp_path, suffix)
    assert sha256(b"x").hexdigest().startswith(path.stem)
    os.utime(path, (1, 1))
    write_artifact(tmp_path, b"x", mime_type)
    assert path.stat().st_mtime > 1
    other = tmp_path / "other"
    other.write_bytes(b"mine")
    path.unlink()
    path.symlink_to(other)
    write_artifact(tmp_path, b"x", mime_type)
    assert (path.is_symlink(), path.read_bytes(), other.read_bytes()) == (False, b"x", b"mine")


def test_content_beside_a_structure_is_kept_in_order(read_):
    link = {"type": "resource_link", "uri": "file:///x", "name": "x"}
    structured = {"slide": 3}
    reading = read_(text('{"slide": 3}'), image(), link, structured=structured, has_structured=True)
    said, shown, linked = reading.content_blocks
    assert (said, linked) == ('{"slide": 3}', link)
    assert shown == reference(PNG, "image/png", shown["path"])
    assert Path(shown["path"]).read_bytes() == PNG
    assert reading.value == structured
    assert reading.natural == {**structured, "content_blocks": reading.content_blocks}


def test_a_property_of_the_server_keeps_its_name(read_):
    structured = {"content": "c", "content_blocks": 7}
    reading = read_(text("more"), structured=structured, has_structured=True)
    assert reading.natural == structured
    assert reading.content_blocks == ["more"]
    schema = {"type": "object", "properties": {"content_blocks": {"type": "integer"}}}
    reading = read_(text("more"), structured={}, has_structured=True, schema=schema)
    assert (reading.natural, reading.content_blocks) == ({}, ["more"])


@pytest.mark.parametrize(
    ("blocks", "structured", "kept"),
    [
        ([], {"a": 1}, False),
        ([' { "a" : 1.0 } '], {"a": 1}, False),
        (["one"], {"a": 1, "b": "one"}, False),
        (["[3]"], {"result": [3]}, False),
        (["three"], {"result": "three"}, False),
        (["three", "4", '{"x": null}'], {"result": ["three", 4, {"x": None}]}, False),
        (["true"], {"result": 1}, True),
        (['{"a": 2}'], {"a": 1}, True),
        (["a", "b"], {"result": ["a", "c"]}, True),
        (['{"a": 1}', "and more"], {"a": 1}, True),
        (["1" * 5000], {"a": 1}, True),
        (["[" * 100_000], {"a": 1}, True),
    ],
)
def test_text_that_only_repeats_the_structure_is_not_kept_beside_it(read_, blocks, structured, kept):
    reading = read_(*map(text, blocks), structured=structured, has_structured=True)
    assert reading.content_blocks == (blocks if kept else [])
    assert ("content_blocks" in reading.natural) == kept


def test_media_inside_a_structure_are_files_too_and_stay_where_they_are(read_):
    sound = {"type": "audio", "data": b64encode(b"la").decode(), "mimeType": "audio/wav"}
    blob = {"type": "blob", "blob": b64encode(b"x").decode(), "mimeType": "text/x"}
    structured = {"content": [image(), {"deep": [sound]}], "more": blob}
    reading = read_(image(), structured=structured, has_structured=True)
    assert reading.value == structured
    assert [Path(file["path"]).read_bytes() for file in reading.content_blocks] == [PNG, b"la", b"x"]
    assert [file["mimeType"] for file in reading.content_blocks] == ["image/png", "audio/wav", "text/x"]


@pytest.mark.parametrize(
    "changed",
    [
        {"type": "picture"},
        {"type": ["image"]},
        {"mimeType": None},
        {"data": None},
        {"data": "not base64!"},
        {"data": ["aGk="]},
    ],
)
def test_any_other_object_with_such_keys_is_data(read_, tmp_path, changed):
    structured = {"a": {**image(), **changed}}
    reading = read_(structured=structured, has_structured=True)
    assert (reading.value, reading.natural, reading.content_blocks) == (structured, structured, [])
    assert not (tmp_path / "files").exists()


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_structure_with_a_number_that_json_does_not_have_fails_the_call(read_, number):
    with pytest.raises(CallFailed, match="NaN or too large") as caught:
        read_(structured={"a": [1.5, {"b": number}]}, has_structured=True)
    assert caught.value.ran == "unknown"
    assert caught.value.where == WHERE._replace(phase="result")
    assert caught.value.suggestions[0].startswith("The tool has run; a repeat may act twice")


def test_what_a_failed_tool_answers_beside_its_words_is_among_the_details(read_):
    bad = {"type": "image", "data": "***", "mimeType": "image/png"}
    with pytest.raises(CallFailed, match="no such slide") as caught:
        read_(text("no such slide"), image(), bad, structured={"code": 7}, has_structured=True, is_error=True)
    error, details = caught.value, caught.value.details
    assert (error.message, error.ran) == ("no such slide", "ran")
    assert error.where == WHERE._replace(phase="result")
    assert details["structured_content"] == {"code": 7}
    said, shown, kept = details["content_blocks"]
    assert (said, kept) == ("no such slide", bad)
    assert Path(shown["path"]).read_bytes() == PNG
    with pytest.raises(CallFailed) as caught:
        read_(text("no such slide"), is_error=True)
    assert not {"structured_content", "content_blocks"} & caught.value.details.keys()


def test_a_full_disk_does_not_hide_why_a_tool_failed(tmp_path):
    (tmp_path / "files").write_text("in the way")
    answer = CallResult(content=(text("no such slide"), image()), is_error=True)
    with pytest.raises(CallFailed, match="no such slide") as caught:
        read(answer, WHERE, tmp_path / "files", None, LAUNCH, ResultForm())
    assert "could not be written" in caught.value.details["content_blocks"][0]


def test_a_large_result_is_itself_and_its_long_texts_are_also_in_files(read_):
    long, data = "ä" * 600, image(b"x" * 2000)
    structured = {"a": [long, "short"], "again": long, "shot": data}
    reading = read_(structured=structured, has_structured=True)
    assert reading.value == structured
    (encoded, shot), (found, file) = reading.files
    assert (encoded, Path(shot["path"]).read_bytes()) == (data["data"], b"x" * 2000)
    assert (found, file["size"], file["mimeType"]) == (long, 1200, "text/plain")
    assert Path(file["path"]).read_text(encoding="utf-8") == long
    assert read_(text("y" * 2000), limit=None).files == ()
    (found, file) = read_(text(f"[{'y' * 2000}]")).files[0]
    assert file["mimeType"] == "application/json"


def test_the_limit_counts_bytes_whatever_the_characters(tmp_path):
    words = "aä語𝄞" * 75
    result, size = CallResult(content=(text(words),)), len(words.encode())
    within, beyond = (
        read(result, WHERE, tmp_path, limit, LAUNCH, ResultForm()) for limit in (size, size - 1)
    )
    assert within.value == beyond.value == words
    assert within.files == ()
    assert [file["size"] for _, file in beyond.files] == [size]


def test_without_room_on_the_disk_a_text_is_still_the_result_and_a_picture_fails_as_one_that_ran(
    tmp_path,
):
    in_the_way = tmp_path / "files"
    in_the_way.write_text("a file where the folder should be")
    result = read(CallResult(content=(text("y" * 2000),)), WHERE, in_the_way, 1024, LAUNCH, ResultForm())
    assert (result.value, result.files) == ("y" * 2000, ())
    answer = CallResult(content=(image(),))
    with pytest.raises(CallFailed, match=f"^Tool get_x on server s ran, .*{in_the_way}") as caught:
        read(answer, WHERE, in_the_way, 10, LAUNCH, ResultForm())
    error = caught.value
    assert (error.ran, error.retryable, error.where.phase) == ("unknown", False, "result")
    assert error.details["path"].startswith(str(in_the_way))
