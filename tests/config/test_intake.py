"""Every shape that `add` takes becomes the same tables."""

from __future__ import annotations

import json

import pytest

from pflow_mcp_plugin.config.intake import Flags, NotUnderstood, from_json, read, servers_in
from pflow_mcp_plugin.storage import CorruptFile

GITHUB = {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-github"]}


@pytest.mark.parametrize(
    "document",
    [
        {"mcpServers": {"github": GITHUB}},
        {"github": GITHUB},
        {"servers": {"github": GITHUB}},
        {"mcpServers": {"github": GITHUB}, "theme": "dark"},
    ],
)
def test_the_shapes_of_json_mean_the_same(document):
    assert read([json.dumps(document)], Flags()) == {"github": GITHUB}


def test_the_older_transport_becomes_the_type():
    document = {
        "servers": {"github": {"transport": "stdio", **GITHUB}, "web": {"transport": "sse", "url": "u"}}
    }
    assert servers_in(document, "") == {
        "github": {"type": "stdio", **GITHUB},
        "web": {"type": "sse", "url": "u"},
    }


def test_a_server_may_be_called_servers():
    assert servers_in({"servers": GITHUB}, "") == {"servers": GITHUB}


def test_a_server_that_is_no_table_is_left_to_the_check():
    assert servers_in({"mcpServers": {"github": "npx"}}, "") == {"github": "npx"}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (GITHUB, "without a name"),
        ({"mcpServers": GITHUB}, "none of the shapes"),
        ({"mcpServers": []}, "none of the shapes"),
        ({"mcpServers": {}}, "no server"),
        ({}, "none of the shapes"),
        ({"a": 1}, "none of the shapes"),
        ([GITHUB], "none of the shapes"),
    ],
)
def test_other_shapes_are_refused_with_the_one_to_write(document, message):
    with pytest.raises(NotUnderstood, match=message) as caught:
        servers_in(document, "It")
    assert caught.value.suggestions
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "place", "hint"),
    [
        ("{'a': 1}", (1, 2), "double quotes"),
        ('{"a": {"command": "x"}\n "b": 1}', (2, 2), "comma"),
        ('{\n// no\n"a": 1}', (2, 1), "comments"),
        ('{"a": "b', (1, 7), "closing double quote"),
        ('{"a": "\\x"}', (1, 8), "backslash"),
        ('{"a": 1} {"b": 2}', (1, 10), "One object"),
        ('{"a": npx}', (1, 7), "double quotes"),
    ],
)
def test_broken_json_is_refused_with_its_place_and_a_hint(text, place, hint):
    with pytest.raises(NotUnderstood) as caught:
        from_json(text, "The JSON")
    assert (caught.value.details["line"], caught.value.details["column"]) == place
    assert hint in caught.value.suggestions[0]


def test_a_name_may_stand_before_the_json_of_one_server():
    assert read(["github", json.dumps(GITHUB)], Flags()) == {"github": GITHUB}
    assert read(["far", ' {"url": "https://x", "transport": "sse"}'], Flags())["far"]["type"] == "sse"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["n", json.dumps({"mcpServers": {"github": GITHUB}})], "names its servers itself"),
        (["n", json.dumps({"github": GITHUB})], "names its servers itself"),
        (["n", '{"command": "npx"'], "not valid, line 1"),
        (["n", json.dumps(GITHUB), "more"], "Nothing may follow JSON"),
    ],
)
def test_other_json_after_a_name_is_not_taken_for_a_command(words, told):
    with pytest.raises(NotUnderstood, match=told):
        read(words, Flags())


def test_a_name_that_stands_twice_is_refused():
    with pytest.raises(NotUnderstood, match='"git" stands twice'):
        from_json('{"git": {"command": "a"}, "git": {"command": "b"}}', "The JSON")


def test_json_without_end_is_refused():
    with pytest.raises(NotUnderstood, match="nested too deeply"):
        from_json('{"a":' * 100_000, "The JSON")


def test_files_are_read_as_json_or_toml(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.json").write_bytes(b"\xef\xbb\xbf" + json.dumps({"github": GITHUB}).encode())
    (tmp_path / "a.toml").write_text('[mcpServers.github]\ncommand = "npx"\n', encoding="utf-8")
    (tmp_path / "plain").write_text(json.dumps({"github": GITHUB}), encoding="utf-8")
    assert read(["a.json"], Flags()) == read(["plain"], Flags()) == {"github": GITHUB}
    assert read([str(tmp_path / "a.toml")], Flags()) == {"github": {"command": "npx"}}


def test_files_that_cannot_be_read_are_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotUnderstood, match=r"no file gone\.json"):
        read(["gone.json"], Flags())
    (tmp_path / "a.json").write_text('{"a": ', encoding="utf-8")
    with pytest.raises(NotUnderstood, match=r"a\.json is not valid, line 1"):
        read(["a.json"], Flags())
    (tmp_path / "b.json").write_bytes(b"\xff")
    with pytest.raises(NotUnderstood, match="UTF-8"):
        read(["b.json"], Flags())
    (tmp_path / "b.toml").write_text("a = ", encoding="utf-8")
    with pytest.raises(CorruptFile, match=r"b\.toml, line 1"):
        read(["b.toml"], Flags())


def test_a_command_takes_its_flags():
    flags = Flags(env=("A=b=c", "D="), cwd="/tmp", trust_readonly=True)
    assert read(["git", "git-server", "-v"], flags) == {
        "git": {
            "command": "git-server",
            "args": ["-v"],
            "cwd": "/tmp",
            "env": {"A": "b=c", "D": ""},
            "trust_readonly": True,
        }
    }


def test_a_url_takes_its_flags():
    flags = Flags(env=("A=b",), headers=("X-A: b:c", "X-D:e"), bearer="${T}", insecure=True)
    assert read(["web", "HTTP://example.com"], flags) == {
        "web": {
            "type": "http",
            "url": "HTTP://example.com",
            "headers": {"X-A": "b:c", "X-D": "e"},
            "auth": {"type": "bearer", "token": "${T}"},
            "insecure": True,
            "env": {"A": "b"},
        }
    }


@pytest.mark.parametrize(
    ("words", "flags", "message"),
    [
        (["git", "git-server"], Flags(bearer="x"), "--bearer does not go with a command"),
        (["git", "git-server"], Flags(headers=("A: b",)), "--header does not go with a command"),
        (["web", "https://e.com"], Flags(cwd="/"), "--cwd does not go with a URL"),
        (['{"a": {}}'], Flags(trust_readonly=True), "--trust-readonly does not go with JSON"),
        (["a.json"], Flags(env=("A=b",)), "--env does not go with a file"),
        (["web", "https://e.com", "more"], Flags(), "Nothing may follow the URL"),
        (['{"a":', "{}}"], Flags(), "Nothing may follow JSON"),
        (["git", "git-server"], Flags(env=("A",)), "--env takes NAME=VALUE"),
        (["web", "https://e.com"], Flags(headers=("Bearer x",)), "--header takes 'NAME: VALUE'"),
        (["https://e.com"], Flags(), "needs a name"),
        (["github"], Flags(), "github is no JSON and no file"),
        ([], Flags(), "Nothing to add"),
    ],
)
def test_what_does_not_fit_is_explained(words, flags, message):
    with pytest.raises(NotUnderstood, match=message) as caught:
        read(words, flags)
    assert caught.value.suggestions
