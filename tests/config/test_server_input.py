"""Every shape that `add` takes becomes the same tables."""

import json

import pytest

from pflow_mcp_plugin.config.server_input import Flags, from_json, nameless, read, servers_in, unmigrated
from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.storage import CorruptFile


def tables(words, flags=None):
    return read(words, flags or Flags()).tables


def notes(document):
    return [note.message for note in servers_in(document, "It").notes]


GITHUB = {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-github"]}


@pytest.mark.parametrize(
    "document",
    [
        {"mcpServers": {"github": GITHUB}},
        {"github": GITHUB},
        {"servers": {"github": GITHUB}},
        {"name": "github", **GITHUB},
        [{"name": "github", **GITHUB}],
        {"mcpServers": [{"name": "github", **GITHUB}]},
        {"name": "github", "transport": "stdio", **GITHUB},
        {"servers": {"github": {"transport": "stdio", **GITHUB}}},
        {"server_id": "github", "transport": "stdio", **GITHUB},
        [{"server_id": "github", "transport": "stdio", **GITHUB}],
    ],
)
def test_the_shapes_of_json_mean_the_same_and_a_server_may_say_its_name_itself(document):
    table = dict(tables([json.dumps(document)])["github"])
    assert table.pop("type", "stdio") == "stdio"
    assert table == GITHUB


def test_names_that_other_clients_allow_are_made_to_fit_and_it_is_said():
    document = {"mcpServers": {"Git Hub": GITHUB, "my_server.v2": GITHUB, "git-hub": GITHUB, "日": GITHUB}}
    found = servers_in(document, "")
    assert list(found.tables)[:3] == ["git-hub-2", "my-server-v2", "git-hub"]
    assert len(found.tables) == 4
    assert len(found.notes) == 3
    assert "'my_server.v2' is renamed to my-server-v2" in found.notes[1].message


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({"type": "streamableHttp", "url": "u"}, {"type": "http", "url": "u"}),
        ({"serverUrl": "https://e.com/mcp"}, {"type": "http", "url": "https://e.com/mcp"}),
        ({"httpUrl": "u", "headers": {"A": "b"}}, {"type": "http", "url": "u", "headers": {"A": "b"}}),
        ({"type": "streamableHttp", "serverUrl": "u"}, {"type": "http", "url": "u"}),
    ],
)
def test_what_other_clients_call_a_transport_is_understood_and_said(table, expected):
    assert servers_in({"mcpServers": {"web": table}}, "").tables == {"web": expected}
    assert notes({"web": table})
    assert tables(["web", json.dumps(table)]) == {"web": expected}


def test_what_is_ours_already_is_not_worth_a_word_and_a_url_beside_another_is_left_to_the_check():
    assert notes({"web": {"type": "streamable-http", "url": "u"}, "git": GITHUB}) == []
    both = {"url": "u", "httpUrl": "v"}
    assert servers_in({"web": both}, "").tables == {"web": both}


@pytest.mark.parametrize(
    ("command", "step"),
    [
        (
            ["npx", "-y", "@modelcontextprotocol/server-github@1.2"],
            "add github -- npx -y @modelcontextprotocol/server-github@1.2",
        ),
        (["uvx", "some-mcp"], "add some -- uvx some-mcp"),
        (["python", "a b.py"], "add NAME -- python 'a b.py'"),
    ],
)
def test_a_command_without_a_name_is_told_where_the_name_goes(command, step):
    assert step in nameless(command).suggestions[0]


def test_a_server_may_be_called_servers_and_one_that_is_no_table_is_left_to_the_check():
    assert servers_in({"servers": GITHUB}, "").tables == {"servers": GITHUB}
    assert servers_in({"mcpServers": {"github": "npx"}}, "").tables == {"github": "npx"}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (GITHUB, "without a name"),
        ({"mcpServers": GITHUB}, "not a server config"),
        ({"mcpServers": []}, "It contains no server"),
        ([], "It contains no server"),
        ({"a": 1}, "not a server config"),
        ([GITHUB], "item 1 has no name"),
        ([{"name": "a", **GITHUB}, {"name": "a", **GITHUB}], "duplicate server a"),
    ],
)
def test_other_shapes_are_refused_with_the_one_to_write(document, message):
    with pytest.raises(PflowError, match=message) as caught:
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
    ],
)
def test_broken_json_is_refused_with_its_place_and_a_hint(text, place, hint):
    with pytest.raises(PflowError) as caught:
        from_json(text, "The JSON")
    assert (caught.value.details["line"], caught.value.details["column"]) == place
    assert caught.value.exit_code == 2
    assert hint in caught.value.suggestions[0]


def test_a_name_may_stand_before_the_json_of_one_server():
    assert tables(["github", json.dumps(GITHUB)]) == {"github": GITHUB}
    assert tables(["far", ' {"url": "https://x", "transport": "sse"}'])["far"]["type"] == "sse"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (['{"a":', "{}}"], "in single quotes"),
        (["n", json.dumps({"mcpServers": {"github": GITHUB}})], "already contains the names"),
        (["n", '{"command": "npx"'], "not valid, line 1"),
        (["n", json.dumps(GITHUB), "more"], "Unexpected argument after JSON"),
        (['{"git": {"command": "a"}, "git": {"command": "b"}}'], '"git" occurs twice'),
        (['{"a":' * 100_000], "nested too deeply"),
    ],
)
def test_other_json_is_not_taken_for_a_server_or_a_command(words, told):
    with pytest.raises(PflowError) as caught:
        read(words, Flags())
    assert told in "".join([caught.value.message, *caught.value.suggestions])


def test_files_are_read_as_json_or_toml(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.json").write_bytes(b"\xef\xbb\xbf" + json.dumps({"github": GITHUB}).encode())
    (tmp_path / "a.toml").write_text('[mcpServers.github]\ncommand = "npx"\n', encoding="utf-8")
    (tmp_path / "plain").write_text(json.dumps({"github": GITHUB}), encoding="utf-8")
    assert tables(["a.json"]) == tables(["plain"]) == {"github": GITHUB}
    assert tables([str(tmp_path / "a.toml")]) == {"github": {"command": "npx"}}


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("gone.json", None, r"not found: gone\.json"),
        ("a.json", b'{"a": ', r"a\.json is not valid, line 1"),
        ("b.json", b"\xff", "UTF-8"),
        ("b.toml", b"a = ", r"b\.toml, line 1"),
    ],
)
def test_files_that_cannot_be_read_are_named(tmp_path, monkeypatch, name, content, told):
    monkeypatch.chdir(tmp_path)
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises((PflowError, CorruptFile), match=told):
        read([name], Flags())


def test_a_command_and_a_url_take_their_flags_of_which_a_debugger_prints_no_secret():
    flags = Flags(env=("A=b=c", "D="), cwd="/tmp", trust_readonly=True)
    command = {"command": "git-server", "args": ["-v"], "cwd": "/tmp"}
    expected = {**command, "env": {"A": "b=c", "D": ""}, "trust_readonly": True}
    assert tables(["git", "git-server", "-v"], flags) == {"git": expected}
    flags = Flags(env=("A=planted",), headers=("X: planted",), bearer="planted")
    assert "planted" not in f"{flags} {read(['web', 'https://example.com'], flags)}"
    flags = Flags(env=("A=b",), headers=("X-A: b:c", "X-D:e"), bearer="${T}", insecure=True)
    assert tables(["web", "HTTP://example.com"], flags) == {
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
        (["git", "git-server"], Flags(bearer="x"), "--bearer cannot be used with a command"),
        (["web", "https://e.com"], Flags(cwd="/"), "--cwd cannot be used with a URL"),
        (['{"a": {}}'], Flags(trust_readonly=True), "--trust-readonly cannot be used with JSON"),
        (["a.json"], Flags(env=("A=b",)), "--env cannot be used with a file"),
        (["web", "https://e.com", "more"], Flags(), "Unexpected argument after the URL"),
        (["git", "git-server"], Flags(env=("A",)), "--env takes NAME=VALUE"),
        (["web", "https://e.com"], Flags(headers=("Bearer x",)), "--header takes 'NAME: VALUE'"),
        (["https://e.com"], Flags(), "needs a name"),
        (["github"], Flags(), "github is neither JSON nor a file"),
        (["x" * 5_000], Flags(), "x is neither JSON nor a file"),
        ([], Flags(), "Nothing to add"),
    ],
)
def test_what_does_not_fit_is_explained(words, flags, message):
    with pytest.raises(PflowError, match=message) as caught:
        read(words, flags)
    assert caught.value.suggestions


@pytest.mark.parametrize(("word", "place"), [(".", 0), ("..", 2), ("./server.js", 2), ("../notes", 0)])
def test_a_typed_word_that_means_this_folder_keeps_meaning_it_elsewhere(monkeypatch, tmp_path, word, place):
    monkeypatch.chdir(tmp_path)
    command = ["node", "-y", "x"]
    command[place] = word
    found = read(["files", *command], Flags())
    kept = found.tables["files"]
    assert [kept["command"], *kept["args"]] == command
    assert kept["cwd"] == str(tmp_path)
    assert [note.path for note in found.notes] == ["mcpServers.files.cwd"]
    chosen = read(["files", *command], Flags(cwd="/srv"))
    assert (chosen.tables["files"]["cwd"], chosen.notes) == ("/srv", ())


@pytest.mark.parametrize("word", [".env", "...", "a/./b", "--dir=.", "~/x"])
def test_other_words_stay_as_typed_and_set_no_folder(word):
    found = read(["files", "node", word], Flags())
    assert (found.tables["files"], found.notes) == ({"command": "node", "args": [word]}, ())


def test_a_bare_python_becomes_the_one_that_it_means_now(monkeypatch, tmp_path):
    for name in ("python", "python3", "python3.13"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("python", "python3"):
        found = read(["mine", name, "-m", "mine"], Flags())
        assert found.tables["mine"] == {"command": str(tmp_path / name), "args": ["-m", "mine"]}
        assert found.notes[0].message.startswith(f"{name} means {tmp_path / name} here")
    assert read(["mine", "python3.13", "-m", "mine"], Flags()).tables["mine"]["command"] == "python3.13"
    monkeypatch.setenv("PATH", "")
    assert read(["mine", "python3"], Flags()).tables["mine"]["command"] == "python3"


def test_a_remote_server_keeps_its_authorization():
    auth = {"token_env": "GITHUB_ENTERPRISE_TOKEN", "scopes": ["repo:read"]}
    kept = {"url": "https://api.github.internal/mcp", "auth": auth}
    document = {"server_id": "github", "transport": "sse", **kept}
    assert servers_in(document, "It").tables == {"github": {"type": "sse", **kept}}


def test_files_of_an_older_pflow_are_found_and_told_of_until_their_servers_are_configured(tmp_path):
    folder = tmp_path / ".pflow"
    folder.mkdir()
    servers = dict.fromkeys(("one", "two", "three", "four"), GITHUB)
    (folder / "mcp-servers.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    (folder / "mcp.json").write_text("{", encoding="utf-8")  # unreadable: nothing is known about it
    (problem,) = unmigrated(tmp_path, ["two"])
    assert "3 servers: one, three, four" in problem.message
    older = folder / "mcp-servers.json"
    assert problem.suggestion == f"Configure what it has: pflow registry migrate-mcp --from {older}"
    assert not [*unmigrated(tmp_path, servers)]


@pytest.mark.parametrize("url", ["ftp://x/y", "unix:///run/x.sock", "HTTPS://x"])
def test_a_url_of_any_scheme_is_no_command(url):
    assert read(["mine", url], Flags()).tables == {"mine": {"type": "http", "url": url}}
