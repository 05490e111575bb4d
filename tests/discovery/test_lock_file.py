import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin import storage
from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.discovery.lock_file import LockedServer, decode, encode, is_lock_file, locked_server
from pflow_mcp_plugin.types import Server, Tool

PATH = Path("mcp-lock.toml")
HASH = "sha256:" + "0123456789abcdef" * 4
SECRET = "Zq7xK2mP9wL4vB8nT3cR6yH1jF5dG0sA7eU2iO9p"


def launch_of(**fields):
    return dict(locked_server(Server(name="s", **fields), "1.0", ()).launch)


def test_a_server_is_written_with_its_launch_its_version_and_the_hashes_of_its_tools():
    server = Server(
        name="github",
        command="npx",
        args=("-y", "server-github@1.2.0", "--token=${GITHUB_TOKEN}"),
        env={"MODE": "plain", "GH": "${GH_HOST:-github.com}"},
        cwd="${HOME}/work",
    )
    tools = (Tool(name="b"), Tool(name="a b"))
    document = tomllib.loads(encode({"github": locked_server(server, "1.2.0", tools)}).decode())
    table = document["servers"]["github"]
    assert document["schema_version"] == 1
    assert list(table["tools"]) == ["a b", "b"]
    assert all(found.startswith("sha256:") for found in table.pop("tools").values())
    assert table == {
        "transport": "stdio",
        "command": "npx",
        "args": ["-y", "server-github@1.2.0", "--token=${GITHUB_TOKEN}"],
        "cwd": "${HOME}/work",
        "env": ["GH", "MODE"],
        "variables": ["GH_HOST", "GITHUB_TOKEN", "HOME"],
        "version": "1.2.0",
    }


def test_a_url_is_written_without_credentials_and_the_variables_of_its_headers_are_named():
    launch = launch_of(
        transport="http",
        url="https://ann:pass-word@mcp.example.com/x?api_key=abcdefgh&page=1",
        headers={"X-One": "${ONE}", "X-Two": "literal"},
        auth={"type": "bearer", "token_env": "TWO"},
    )
    assert launch == {
        "transport": "http",
        "url": "https://mcp.example.com/x?api_key=****&page=1",
        "variables": ("ONE", "TWO"),
    }


@pytest.mark.parametrize(
    "fields",
    [
        {"command": "c", "args": (f"--token={SECRET}",)},
        {"command": "c", "args": ("--api-key", SECRET)},
        {"command": "c", "args": (f"ghp_{SECRET[:36]}",)},
        {"command": "c", "args": (f"x-${{API_TOKEN:-{SECRET}}}-y",)},
        {"command": "c", "args": (f"postgres://ann:{SECRET}@host/db",)},
        {"command": "c", "env": {"ANY": SECRET}},
        {"transport": "http", "url": f"https://ann:{SECRET}@host/"},
        {"transport": "http", "url": f"https://host/?token={SECRET}"},
        {"transport": "http", "url": "https://host/", "headers": {"X": SECRET}},
        {"transport": "http", "url": "https://host/", "auth": {"type": "bearer", "token": SECRET}},
    ],
)
def test_a_secret_that_is_written_out_in_the_config_is_not_in_the_lock(fields):
    written = encode({"s": locked_server(Server(name="s", **fields), "", ())}).decode()
    assert SECRET[:12] not in written
    other = Server(name="s", **_with(fields, "quite-Another-secret-0123456789-of-ann1"))
    assert written == encode({"s": locked_server(other, "", ())}).decode()


def _with(fields, secret):
    """Replace the secret wherever it is in the fields of a server."""
    if isinstance(fields, str):
        return fields.replace(SECRET, secret).replace(SECRET[:36], secret[:36].replace("-", "0"))
    if isinstance(fields, dict):
        return {key: _with(value, secret) for key, value in fields.items()}
    return tuple(_with(value, secret) for value in fields)


def test_versions_and_defaults_that_are_no_secrets_stay_as_they_stand_in_the_arguments():
    args = ("run", "postgres@" + HASH, "server@1.2.0", "server==1.2.0", "image:1.2.0", "${REGION:-eu}")
    assert launch_of(command="docker", args=args)["args"] == args


names = st.text(alphabet=st.characters(blacklist_categories=("Cs",)), min_size=1, max_size=8)
servers = st.builds(
    LockedServer,
    launch=st.fixed_dictionaries(
        {}, optional={"command": names, "url": names, "args": st.lists(names, max_size=3).map(tuple)}
    ),
    version=st.text(alphabet=st.characters(blacklist_categories=("Cs",)), max_size=5),
    tools=st.dictionaries(names, st.just(HASH), max_size=4),
)


@given(st.dictionaries(st.from_regex(r"[a-z0-9-]{1,6}", fullmatch=True), servers, max_size=3))
def test_what_is_written_is_read_again_and_the_order_does_not_matter(locked):
    content = encode(locked)
    assert decode(PATH, content).servers == locked
    assert decode(PATH, content).warnings == ()
    assert encode(dict(reversed(locked.items()))) == content
    assert all(char.isprintable() or char == "\n" for char in content.decode())


def test_a_string_that_utf_8_lacks_is_an_error_not_half_a_file():
    with pytest.raises(ValueError, match="surrogates"):
        encode({"s": LockedServer(tools={"\ud800": HASH})})


def problems_of(text):
    with pytest.raises(PflowError) as refused:
        decode(PATH, text.encode())
    assert refused.value.exit_code == 2
    return {problem.path: problem.message for problem in refused.value.problems}


def test_every_mistake_is_told_at_once_with_its_path():
    found = problems_of(
        """
        schema_version = "one"
        [servers.demo]
        transport = 5
        args = ["a", 1, {}]
        env = "X"
        tools = []
        [servers."Bad Name"]
        [servers.other]
        version = 1.0
        tools = { add = "sha256:12", sub = 1979-05-27, "a.b" = [] }
        [servers]
        five = 5
        """
    )
    assert set(found) == {
        "schema_version",
        "servers.demo.transport",
        "servers.demo.args[1]",
        "servers.demo.args[2]",
        "servers.demo.env",
        "servers.demo.tools",
        'servers."Bad Name"',
        "servers.other.version",
        "servers.other.tools.add",
        "servers.other.tools.sub",
        'servers.other.tools."a.b"',
        "servers.five",
    }
    assert found["servers.demo.transport"] == "Must be a string, not a number"


@pytest.mark.parametrize(
    "text", ["", "x = 1", "schema_version = true", "schema_version = 0", "schema_version = -1"]
)
def test_a_file_without_a_version_or_whose_servers_are_no_table_is_no_lock_file(text):
    assert set(problems_of(text)) == {"schema_version"}
    assert problems_of("schema_version = 1\nservers = 5") == {"servers": "Must be a table, not a number"}


@pytest.mark.parametrize("version", ["2", "1" + "0" * 400])
def test_a_file_of_a_newer_version_is_refused(version):
    for read in (decode, is_lock_file):
        with pytest.raises(storage.StoreError, match="written by a newer pflow") as refused:
            read(PATH, f"schema_version = {version}\nservers = 5".encode())
        assert refused.value.suggestions == ("Upgrade pflow",)


def test_what_is_not_toml_is_told_with_line_and_column():
    with pytest.raises(storage.CorruptFile) as refused:
        decode(PATH, b"schema_version = 1\n<<<<<<< HEAD\n")
    assert (refused.value.details["line"], refused.value.details["column"]) == (2, 1)


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("", True),
        ("# nothing yet\n", False),
        (encode({}).decode(), True),
        (encode({"s": LockedServer(tools={"a": HASH})}).decode(), True),
        ("schema_version = 1\n[servers.s]\ntools = 5", True),
        ("schema_version = 1\n[mcpServers.s]", False),
        ("schema_version = 1\n[servers]\ns = 1", False),
        ("[project]\nname = 'x'", False),
    ],
)
def test_only_what_has_the_form_of_a_lock_file_is_taken_for_one(text, is_one):
    assert is_lock_file(PATH, text.encode()) is is_one
