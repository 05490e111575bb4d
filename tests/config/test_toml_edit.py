"""A change of one server replaces its own text in the file; every other byte stays."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin.config.document_text import Layout
from pflow_mcp_plugin.config.server_store import ServerStore

OURS = """\
# my servers

[mcpServers.git] # work
command = "git-server"
# the token is in the keychain
args = [
    "-v", # loud
]

# for the team
[mcpServers."git".env]
TOKEN = "${TOKEN}"

# waits long
[defaults]
call_timeout = 60  # seconds

[ mcpServers . web ]
url = "https://example.com/#mcp"
"""


def stored(path, text):
    path.write_bytes(text.encode())
    return ServerStore(path)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "mcp-servers.toml"


def test_an_added_server_stands_behind_the_others_and_nothing_else_changes(path):
    assert stored(path, OURS).add({"new": {"command": "x", "env": {"A": "1"}}}).warnings == ()
    added = '\n[mcpServers.new]\ncommand = "x"\n\n[mcpServers.new.env]\nA = "1"\n'
    assert path.read_text(encoding="utf-8") == OURS + added
    assert list(path.parent.glob("*.bak*")) == []


def test_a_replaced_server_stands_where_it_stood(path):
    assert stored(path, OURS).add({"web": {"command": "x"}}).warnings == ()
    place = OURS.index("[ mcpServers")
    assert path.read_text(encoding="utf-8") == OURS[:place] + '[mcpServers.web]\ncommand = "x"\n'


def test_comments_inside_a_table_that_goes_are_in_a_copy_and_those_around_it_stay(path):
    (warning,) = stored(path, OURS).remove("git").warnings
    assert "mcp-servers.toml.bak" in warning.message
    text = path.read_text(encoding="utf-8")
    assert text == "# my servers\n\n# for the team\n\n" + OURS[OURS.index("# waits long") :]
    assert path.with_name("mcp-servers.toml.bak").read_text(encoding="utf-8") == OURS


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            '[mcpServers]\na = {command = "a"}\nb = {command = "b"} # b\n',
            '[mcpServers]\na.command = "x"\nb = {command = "b"} # b\n',
        ),
        (
            '[mcpServers]\n"a".command = "a"\n[mcpServers.a.env]\nA = "1"\n[mcpServers.b] # b\n',
            '[mcpServers]\na.command = "x"\n[mcpServers.b] # b\n',
        ),
        (
            '[mcpServers.a.env]\nA = "1"\n\n\n[mcpServers.a]\ncommand = """\n[not.a.table] # no\n"""',
            '[mcpServers.a]\ncommand = "x"\n',
        ),
    ],
)
def test_a_server_is_found_however_it_is_written(path, before, after):
    assert stored(path, before).add({"a": {"command": "x"}}).warnings == ()
    assert path.read_text(encoding="utf-8") == after


def test_line_ends_and_the_byte_order_mark_stay_as_they_are(path):
    before = b'\xef\xbb\xbf# one\r\n[mcpServers.a]\r\ncommand = "a"'
    path.write_bytes(before)
    ServerStore(path).add({"b": {"command": "b"}})
    assert path.read_bytes() == before + b'\r\n\r\n[mcpServers.b]\r\ncommand = "b"\r\n'


def test_servers_inside_an_inline_table_are_written_anew_and_their_comments_kept_in_a_copy(path):
    before = 'mcpServers = {a = {command = "a"}} # one\n[other] # two\n'
    (warning,) = stored(path, before).add({"b": {"command": "b"}}).warnings
    assert "mcp-servers.toml.bak" in warning.message
    assert tomllib.loads(path.read_text(encoding="utf-8")) == {
        "mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}},
        "other": {},
    }
    assert path.with_name("mcp-servers.toml.bak").read_text(encoding="utf-8") == before


def test_what_only_python_takes_for_equal_is_a_change(path):
    store = stored(path, '# one\n[mcpServers.a]\ncommand = "a"\nx = 1\nnot = nan\n')
    assert store.add({"a": {"command": "a", "x": True, "not": float("nan")}}).replaced == ("a",)
    assert path.read_text(encoding="utf-8").startswith("# one\n")
    assert store.raw()["mcpServers"]["a"]["x"] is True
    assert store.add({"a": {"command": "a", "x": True, "not": float("nan")}}).replaced == ()
    for other in ({"x": True, "not": 1.5}, {"x": ["b"], "not": 1.5}, {"x": "b", "not": 1.5}):
        assert store.add({"a": {"command": "a", **other}}).replaced == ("a",)


NAMES = ["a", "b-1", "c"]
COMMENTS = st.sampled_from(["", "\n", "# [mcpServers.a]\n", '# "\n\n', "\n# it's = {\n", "  # x\n\n\n"])
# A server called @, as tables of its own and as keys in another.
SECTIONS = st.sampled_from(
    [
        "[mcpServers.@]\n",
        "[ mcpServers . '@' ] # why\n\n# in\nargs = [\n  ']', # one\n]\n[mcpServers.@.env]\nA = 'x'\n",
        '["mcpServers".@.env]\nA = """\n[mcpServers.a]\n# "\n"""\n\n[mcpServers.@]\nd.x = {k = "}"}\n',
        "[[mcpServers.@.x]]\n[[mcpServers.@.x]]\nmcpServers.a = nan\n",
    ]
)
KEYS = st.sampled_from(
    [
        '@ = {command = "x", k = "}"} # why\n',
        "@.command = '''it''\n= 1\n'''\n\"@\" . 'x'.y = 1\n",
        "@.args = [ # [\n  '#',\n] #'''\n@.env.command = \"'\"\n",
    ]
)


@st.composite
def files(draw):
    """Build a file of tables in any order: pairs of the server that a piece is about, and its text."""
    place = draw(st.sampled_from(["root", "table"]))
    above, below = [(None, "schema = 1\n")], [(None, "[defaults]\na = 2 # two\n")]
    inside = above if place == "root" else [(None, "[mcpServers] # all\n")]
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True)):
        if draw(st.booleans()):
            below.append((name, draw(SECTIONS).replace("@", name)))
        else:
            key = f"mcpServers.{name}" if place == "root" else name
            inside.append((name, draw(KEYS).replace('"@"', f"{key}").replace("@", key)))
    below = draw(st.permutations(below))
    pieces = [*draw(st.permutations(above)), *below] if place == "root" else [*above, *below, *inside]
    return [part for piece in pieces for part in ((None, draw(COMMENTS)), piece)]


def text_of(pieces):
    return "".join(text for _, text in pieces)


TABLES = st.fixed_dictionaries(
    {"command": st.just("x")},
    optional={
        "args": st.just(["-v", '"""']),
        "env": st.dictionaries(st.sampled_from(["A", "=", "]"]), st.just("\\"), max_size=2),
        "x y": st.sampled_from([{}, {"a": {"b": {}}}, [{"a": [[]]}], True, 1.5, "é\n"]),
    },
)


@given(files(), st.sampled_from(NAMES), st.none() | TABLES)
def test_any_file_keeps_all_but_the_text_of_the_server_that_changes(pieces, name, table):
    text = text_of(pieces)
    layout = Layout(text)
    servers = dict(tomllib.loads(text).get("mcpServers", {}))
    if table is None:
        layout.remove(("mcpServers", name))
        servers.pop(name, None)
    else:
        layout.put(("mcpServers", name), table)
        servers[name] = table
    assert same(tomllib.loads(str(layout)), {**tomllib.loads(text), "mcpServers": servers})
    rest = str(layout)
    for line in unchanged(pieces, name):
        _, found, rest = rest.partition(line)
        assert found


def unchanged(pieces, name):
    """Yield what must stay, in its order: other servers' texts as they are, the rest but for blank lines."""
    for owner, text in pieces:
        if owner is None:
            yield from (line for line in text.splitlines(keepends=True) if line.strip())
        elif owner != name:
            yield text


def same(found, expected):
    servers = {"mcpServers": {}}
    return repr(by_key({**servers, **found})) == repr(by_key({**servers, **expected}))


def by_key(value):
    if isinstance(value, dict):
        return {key: by_key(value[key]) for key in sorted(value)}
    return [by_key(item) for item in value] if isinstance(value, list) else value


@given(files(), TABLES)
def test_what_is_added_and_removed_again_leaves_the_bytes_as_they_were(pieces, table):
    layout = Layout(text_of(pieces))
    layout.put(("mcpServers", "new"), table)
    again = Layout(str(layout))
    again.remove(("mcpServers", "new"))
    assert str(again) == text_of(pieces)
