"""The config file of the servers: what is kept, what is refused, and several writers at once."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin.config import server_schema
from pflow_mcp_plugin.config.project_file import ProjectFile
from pflow_mcp_plugin.config.server_store import ServerStore, StoreChange
from pflow_mcp_plugin.contract import Paths
from pflow_mcp_plugin.errors import McpError, Where
from pflow_mcp_plugin.network.egress import refusal_of_url
from pflow_mcp_plugin.storage import CorruptFile
from pflow_mcp_plugin.storage.json_and_toml import decode_toml, encode_toml

SAY = {"command": "say"}
WEB = {"type": "http", "url": "https://mcp.example.com/"}
WEB_AND_CLOCK = encode_toml({"mcpServers": {"web": WEB, "clock": SAY}}).decode()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "config" / "mcp-servers.toml"


@pytest.fixture
def store(path):
    return ServerStore(path)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(0o600)


def failure_of(store, name):
    with pytest.raises(McpError) as caught:
        store.get(name)
    return caught.value


def test_a_server_is_stored_as_it_was_given_and_read_back(store, path):
    assert (store.names(), store.raw(), store.check()) == ((), {}, [])
    change = store.add({"git": {"type": "stdio", "command": "git-server", "args": ["-v"], "cwd": None}})
    assert change.added == ("git",)
    assert store.raw() == {"mcpServers": {"git": {"command": "git-server", "args": ["-v"]}}}
    assert store.get("git").args == ("-v",)
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('[mcpServers.a]\ncommand = "npx', (2, 15)),
        (b'[mcpServers.a]\ncommand = "\xff"\n', (2, 12)),
    ],
)
def test_a_corrupt_file_is_refused_with_line_and_column_and_not_written_over(store, path, text, place):
    write(path, text)
    before = path.read_bytes()
    for use in (store.names, lambda: store.add({"b": {"command": "b"}}), lambda: store.remove("a")):
        with pytest.raises(CorruptFile) as caught:
            use()
        assert tuple(caught.value.details.get(key, 0) for key in ("line", "column")) == place
        assert str(path) in caught.value.message
    assert path.read_bytes() == before
    assert [problem.source for problem in store.check()] == [str(path)]
    write(path, f"x = {'1' * 5000}\n")
    with pytest.raises(CorruptFile, match="4300 digits"):
        store.names()


def test_only_a_servers_own_problems_and_those_of_the_defaults_keep_it_from_being_used(store, path):
    write(path, '[mcpServers.good]\ncommand = "a"\n[mcpServers.bad]\nargs = 3\n')
    assert store.get("good").command == "a"
    failure = failure_of(store, "bad")
    places = {problem.path for problem in failure.problems}
    assert places == {"mcpServers.bad.args", "mcpServers.bad.command"}
    assert "Server bad" in failure.message
    assert store.add({"bad": {"command": "b"}}).replaced == ("bad",)
    assert store.check() == []
    write(path, '[mcpServers.good]\ncommand = "a"\n[defaults]\ncall_timeout = "x"\n')
    for use in (lambda: store.get("good"), lambda: store.add({"a": {"command": "a"}})):
        with pytest.raises(McpError, match=r"defaults\.call_timeout"):
            use()
    assert store.names() == ("good",)


def test_an_unknown_server_is_answered_with_the_nearest_names_and_the_next_step(store, path):
    unknown = failure_of(store, "github")
    assert str(unknown) == f"Server github not configured in {path}"
    assert unknown.suggestions == ("Add it: pflow mcp add NAME -- COMMAND",)
    assert unknown.where == Where(server="github", phase="config")
    store.add({"github": SAY})
    misspelt = failure_of(store, "gihtub")
    assert misspelt.suggestions == ("Did you mean github?",)
    assert misspelt.details["nearest"] == ["github"]
    assert failure_of(store, "zzz").suggestions[0].startswith("Configured: github. Add it: ")
    with pytest.raises(McpError):
        store.fingerprint("gihtub")
    assert store.not_configured("GitHup").suggestions == misspelt.suggestions
    assert store.not_configured("").message == f"Server '' not configured in {store.path}"


def test_servers_that_are_no_table_are_neither_read_nor_replaced(store, path):
    write(path, "mcpServers = 3\n")
    for use, subject in ((store.names, str(path)), (lambda: store.add({"a": SAY}), "Nothing was added")):
        with pytest.raises(McpError) as caught:
            use()
        assert caught.value.message.startswith(f"{subject}: Must be a table of servers")
    assert path.read_text() == "mcpServers = 3\n"


def test_a_change_that_changes_nothing_leaves_the_file_alone(store, path):
    text = '[mcpServers.a]\ncommand="a" # mine\ndisabled = true\n'
    write(path, text)
    assert store.switch(["a", "a"], disabled=True) == StoreChange()
    assert store.add({"a": {"command": "a", "disabled": True}}) == StoreChange()
    assert path.read_text() == text
    assert store.switch(["a", "a"], disabled=False).replaced == ("a",)
    assert store.raw() == {"mcpServers": {"a": {"command": "a"}}}


def test_an_add_tells_what_is_doubtful_about_its_servers_only(store, path):
    write(path, "[mcpServers.other]\nargs = 3\n[defaults]\nunknown = 1\n")
    change = store.add({"a": {**SAY, "later": 1}})
    assert (change.added, change.replaced) == (("a",), ())
    assert [problem.path for problem in change.warnings] == ["mcpServers.a.later"]
    refused = store.refused({"a": SAY, "b": {"args": 1}})
    assert {name: len(found) for name, found in refused.items()} == {"b": 2}
    assert store.refused({"a": {**SAY, "later": 1, "type": "stdio"}}) == {}


def test_a_variable_that_is_null_is_left_out_with_a_warning(store):
    (warning,) = store.add({"a": {"command": "a", "cwd": None, "env": {"A": None, "B": "b"}}}).warnings
    assert (warning.severity, warning.path) == ("warning", "mcpServers.a.env.A")
    assert dict(store.get("a").env) == {"B": "b"}


def test_values_that_toml_cannot_hold_are_refused(store, path):
    with pytest.raises(McpError, match="null"):
        store.add({"a": {"command": "a", "x": [None]}})
    with pytest.raises(McpError, match=r"'command = \"\\ud800'") as caught:
        store.add({"a": {"command": "\ud800"}})
    assert "rename the file" in caught.value.suggestions[0]
    assert not path.exists()


def test_comments_that_are_lost_go_to_a_copy_that_is_never_written_over(store, path):
    write(path, '[mcpServers.b]\ncommand = "a" # one\n')
    (warning,) = store.add({"b": {"command": "b"}}).warnings
    assert "mcp-servers.toml.bak" in warning.message
    write(path, '[mcpServers.b]\ncommand = "a" # two\n')
    store.add({"b": {"command": "b"}})
    copies = sorted(path.parent.glob("*.bak*"))
    assert [copy.read_text(encoding="utf-8")[-6:-1] for copy in copies] == ["# one", "# two"]
    assert [copy.stat().st_mode & 0o777 for copy in copies] == [0o600, 0o600]
    assert store.add({"c": {"command": "c"}}).warnings == ()


texts = st.text(alphabet=st.characters(exclude_characters="$\0", codec="utf-8"), max_size=12)
words = texts.filter(lambda text: text.strip())


@given(
    name=st.from_regex(r"[a-z0-9-]{1,8}", fullmatch=True),
    command=words,
    args=st.lists(texts, max_size=4),
    env=st.dictionaries(words.map(lambda text: text.replace("=", "_")), texts, max_size=3),
    extra=st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | texts,
        lambda inner: st.lists(inner.filter(lambda item: item is not None)) | st.dictionaries(texts, inner),
        max_leaves=5,
    ),
)
def test_servers_survive_the_way_through_toml(name, command, args, env, extra):
    table = {"command": command, "args": args, "env": env, "x-extra": extra}
    document = {"mcpServers": {name: server_schema.clean(table)}}
    try:
        again = decode_toml(None, encode_toml(document))
    except ValueError:
        assert server_schema._holds_null(extra)
        return
    assert again == document
    server = server_schema.build(name, again["mcpServers"][name], {})
    assert (server.command, list(server.args), dict(server.env)) == (command, args, env)


def test_a_server_is_checked_once_until_the_file_changes(store):
    store.add({"a": {"command": "x"}})
    store.raw()["mcpServers"].clear()  # which is the caller's own
    assert store.get("a") is store.get("a")
    store.add({"a": {"command": "y"}})
    assert store.get("a").command == "y"


def test_a_server_over_http_gets_the_rules_for_the_network(store, path):
    write(path, '[network]\npolicy = "registered"\nallow = ["10.0.0.0/8"]\n' + WEB_AND_CLOCK)
    rules = store.get("web").network
    assert (rules.policy, rules.allow, rules.hosts) == ("registered", ("10.0.0.0/8",), ("mcp.example.com",))
    assert store.get("clock").network.policy == "open"


def test_mistakes_in_the_rules_for_the_network_keep_servers_over_http_from_being_used(store, path):
    for misspelt in ('[network]\ndenied = ["*"]\n', '[netwrok]\npolicy = "registered"\n'):
        write(path, misspelt + WEB_AND_CLOCK)
        assert "Unknown field" in failure_of(store, "web").message
    write(path, '[network]\ndeny = ["https://example.com"]\n' + WEB_AND_CLOCK)
    assert [problem.path for problem in failure_of(store, "web").problems] == ["network.deny[0]"]
    assert store.get("clock").command == "say"
    with pytest.raises(McpError, match=r"network\.deny"):
        store.network()
    write(path, '[network]\ndeny = ["b.example"]\n' + WEB_AND_CLOCK)
    assert (store.network().deny, store.network().hosts) == (("b.example",), ("mcp.example.com",))


@pytest.fixture
def folders(tmp_path):
    return {name: tmp_path / name for name in ("config", "data", "state", "cache")}


@pytest.fixture
def project(tmp_path, folders):
    """The file of a project that is used without approval, and a store that reads it."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": {"say": SAY, "web": WEB}}))
    return ProjectFile(Paths(**folders, project=folder))


@pytest.fixture
def shared(path, project):
    return ServerStore(path, lambda: project)


def test_a_projects_servers_follow_the_users_own_and_have_the_users_defaults(shared, project, path):
    write(path, "[defaults]\ncall_timeout = 7\n")
    shared.add({"mine": {"command": "mine"}})
    assert shared.names() == ("mine", "say", "web")
    assert (shared.get("say").command, shared.get("say").call_timeout) == ("say", 7)
    assert shared.table("web") == WEB
    assert [*shared.raw()["mcpServers"]] == ["mine"]
    assert shared.file_of("mine") == shared.path
    assert shared.file_of("say") == project.reading().path
    assert [*shared.project_folders()] == ["say", "web"]
    assert shared.get("say") is shared.get("say")


def test_the_users_own_server_wins_over_a_projects_of_the_same_name(shared, project):
    assert shared.get("say").command == "say"
    shared.add({"say": {"command": "mine"}})
    assert shared.names() == ("say", "web")
    assert shared.get("say").command == "mine"
    assert "say" not in shared.project_folders()
    assert "mcpServers.say" not in {it.path for it in shared.notices()}
    notice = next(it for it in shared.notices(duplicates=True) if it.path == "mcpServers.say")
    assert str(shared.path) in notice.message
    assert str(project.reading().path) in notice.message


def test_an_unapproved_project_registers_no_host(shared, project, path):
    mine = '[mcpServers.mine]\ntype = "http"\nurl = "https://a.example/"\n'
    write(path, f'[network]\npolicy = "registered"\n{mine}')
    assert shared.get("web").network.hosts == ("a.example",)
    assert refusal_of_url(shared.get("web"), WEB["url"])
    content = project.content()
    project.approve(content, content.tables)
    for name in ("web", "mine"):
        assert shared.get(name).network.policy == "registered"
        assert set(shared.get(name).network.hosts) == {"a.example", "mcp.example.com"}
    assert refusal_of_url(shared.get("web"), WEB["url"]) is None


def test_a_projects_server_is_not_removed_from_the_users_file(shared, project):
    with pytest.raises(McpError, match="it comes from") as refused:
        shared.remove("say")
    assert str(project.reading().path) in refused.value.message
    assert refused.value.where == Where(server="say", phase="config")
    assert refused.value.suggestions
    for change in (lambda: shared.require_own("say"), lambda: shared.switch(["say"], disabled=True)):
        with pytest.raises(McpError, match="it comes from"):
            change()
    for change in (lambda: shared.require_own("gone"), lambda: shared.switch(["gone"], disabled=True)):
        with pytest.raises(McpError, match="Server gone not configured"):
            change()
    assert str(project.reading().path) in shared.enabling_step("say")
    shared.add({"say": SAY})
    shared.require_own("say")
    assert shared.enabling_step("say") == "Run: pflow mcp enable say"
    shared.remove("say")
    assert shared.names() == ("say", "web")


def test_the_check_names_the_project_for_its_mistakes(shared, project):
    file = project.reading().path
    file.write_text(json.dumps({"mcpServers": {"say": {"command": 1}, "No Name": SAY}, "more": 1}))
    found = [(problem.path, problem.source) for problem in shared.check()]
    assert found == [(place, str(file)) for place in ("more", "mcpServers.no-name", "mcpServers.say.command")]
    with pytest.raises(McpError, match="Server say of "):
        shared.get("say")


def test_a_server_that_only_an_unapproved_project_has_is_offered(store, project, folders, monkeypatch):
    monkeypatch.chdir(project.path.parent)
    unasked = ServerStore(store.path, lambda: ProjectFile(Paths(**folders)))
    step = failure_of(unasked, "say").suggestions[0]
    assert step.endswith("has it; run: pflow mcp approve --project")


def test_a_corrupt_config_of_the_users_own_is_an_error_and_no_notice(shared, path):
    write(path, "[")
    assert shared.notices() == []
    assert [problem.source for problem in shared.check()] == [str(path)]
    with pytest.raises(CorruptFile):
        shared.names()


def test_a_file_that_changes_is_read_again(shared, project):
    assert shared.names() == ("say", "web")
    file = project.reading().path
    file.write_text(json.dumps({"mcpServers": {"other": SAY}}))
    assert shared.names() == ("other",)
    file.unlink()
    assert shared.names() == ()
    (notice,) = shared.notices()
    assert notice.message.startswith("There is no .mcp.json")
