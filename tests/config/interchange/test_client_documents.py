"""Where clients keep their files, and files of real shape: read, written back, and read again."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path

import attrs
import livemcpbench
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin.config import document_text, server_schema
from pflow_mcp_plugin.config.expansion import expand
from pflow_mcp_plugin.config.interchange import client_documents, clients, transfer_plans
from pflow_mcp_plugin.config.interchange.clients import CLIENTS, FoundFile, Machine
from pflow_mcp_plugin.config.server_input import URLS
from pflow_mcp_plugin.contract import PflowError

DATA = Path(__file__).parents[2] / "data" / "clients"
FILES = {
    "claude-desktop.json": "claude-desktop",
    "claude-code.json": "claude-code",
    "claude-code-project.json": "claude-code",
    "cursor.json": "cursor",
    "vscode.json": "vscode",
    "vscode-settings.json": "vscode",
    "windsurf.json": "windsurf",
    "zed.json": "zed",
    "codex.toml": "codex",
    "gemini-cli.json": "gemini-cli",
    "opencode.json": "opencode",
    "opencode-2.json": "opencode",
    "goose.yaml": "goose",
    "lm-studio.json": "lm-studio",
    "pflow-cli.json": "pflow-cli",
    "mcp.json": "mcp-json",
}
"""The files, and the client of each."""

THEIR_NAMES = {
    "cmd": "command",
    "environment": "env",
    "envs": "env",
    "http_headers": "headers",
    "httpUrl": "url",
    "serverUrl": "url",
    "type": "transport",
    "uri": "url",
}
"""How clients call our fields, in lists of what is lost."""

MACHINE = Machine(system="linux", home=Path("/home/ada"), folder=Path("/home/ada/work"), variables={})


def machine(system="linux", **variables):
    return Machine(system=system, home=Path("/home/ada"), folder=Path("/work"), variables=variables)


def places(name, where):
    return [str(file.path) for file in clients.places(CLIENTS[name], where)]


SUPPORT = "/home/ada/Library/Application Support"


@pytest.mark.parametrize(
    ("name", "system", "path", "written"),
    [
        ("claude-desktop", "macos", f"{SUPPORT}/Claude/claude_desktop_config.json", True),
        ("claude-desktop", "windows", "/appdata/Claude/claude_desktop_config.json", True),
        ("vscode", "linux", "/home/ada/.config/Code/User/mcp.json", True),
        ("vscode", "windows", "/appdata/Code/User/settings.json", False),
        ("zed", "macos", "/home/ada/.config/zed/settings.json", True),
        ("zed", "windows", "/appdata/Zed/settings.json", True),
        ("goose", "windows", "/appdata/Block/goose/config/config.yaml", True),
        ("claude-code", "windows", "/home/ada/.claude.json", True),
        ("claude-code", "linux", "/work/.mcp.json", False),
        ("pflow-cli", "linux", "/home/ada/.pflow/mcp-servers.json", True),
    ],
)
def test_each_client_has_its_places_on_each_system_and_one_that_is_written(name, system, path, written):
    there = machine(system, APPDATA="/appdata")
    assert path in places(name, there)
    assert (str(clients.written(CLIENTS[name], there)) == path) is written


def test_a_folder_in_a_variable_is_used_when_the_variable_is_set():
    assert places("codex", machine(CODEX_HOME="/codex"))[0] == "/codex/config.toml"
    assert places("codex", machine())[0] == "/home/ada/.codex/config.toml"
    assert places("zed", machine(XDG_CONFIG_HOME="/xdg"))[0] == "/xdg/zed/settings.json"


def test_only_files_that_exist_are_found_and_those_of_a_project_are_marked(tmp_path):
    home, folder = tmp_path / "home", tmp_path / "work"
    for path in (home / ".cursor" / "mcp.json", folder / ".mcp.json"):
        path.parent.mkdir(parents=True)
        path.write_text("{}")
    here = Machine(system="linux", home=home, folder=folder, variables={})
    found = clients.found(here)
    assert [(it.client.name, it.is_project) for it in found] == [("claude-code", True), ("cursor", False)]
    assert clients.found(here, CLIENTS["zed"]) == []


def test_servers_are_written_to_the_users_first_file_that_exists_and_is_still_written(tmp_path):
    here = Machine(system="linux", home=tmp_path, folder=tmp_path / "work", variables={})
    new, old = tmp_path / ".config/Code/User/mcp.json", tmp_path / ".cache/lm-studio/mcp.json"
    for path in (new.with_name("settings.json"), here.folder / ".vscode" / "mcp.json", old):
        path.parent.mkdir(parents=True)
        path.write_text("{}")
    assert clients.written(CLIENTS["vscode"], here) == new
    assert clients.written(CLIENTS["lm-studio"], here) == old
    assert clients.written(CLIENTS["cursor"], here) == tmp_path / ".cursor" / "mcp.json"
    assert clients.written(CLIENTS["mcp-json"], here) is None


def test_an_unknown_client_is_refused_with_the_nearest():
    with pytest.raises(PflowError) as caught:
        clients.client("claude-dekstop")
    assert caught.value.suggestions == ("Did you mean claude-desktop?",)
    with pytest.raises(PflowError) as caught:
        clients.client("zzz")
    assert caught.value.suggestions == (f"Known: {', '.join(CLIENTS)}",)
    assert clients.client("gemini") is CLIENTS["gemini-cli"]


def read(name, client=""):
    content = client_documents.read_any(DATA / name, MACHINE, CLIENTS[client or FILES[name]])
    return {server.name: server.reading for server in content.servers}


def tables(readings):
    return {name: reading.table for name, reading in readings.items() if not reading.reason}


def servers(found):
    """Return the servers that tables describe; each table is valid."""
    for name, table in found.items():
        errors = [it for it in server_schema.check_server(name, table) if it.severity == "error"]
        assert errors == []
    return {name: server_schema.build(name, server_schema.clean(table), {}) for name, table in found.items()}


def expanded(found):
    values = "https://{}.example.com".format
    return {name: expand(server, values) for name, server in servers(found).items()}


def read_back(client, document, tmp_path):
    """Return the tables in a document of a client, which went through a file."""
    path = tmp_path / f"back.{client.form}"
    path.write_text(document_text.dump(document, client.form), encoding="utf-8")
    return tables(read(path, client.name))


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_imported_and_exported_back_describes_the_same_servers(name, tmp_path):
    client = CLIENTS[FILES[name]]
    found = tables(read(name))
    plan = transfer_plans.plan_export(client, found)
    back = read_back(client, plan.document({}), tmp_path)
    assert back == found
    assert expanded(back) == expanded(found)
    lost = [item for server in plan.servers for item in server.lost]
    assert all("does not expand" in item for item in lost), lost  # nothing but what the file itself lacks


@pytest.mark.parametrize(
    ("name", "is_named"), [("codex.toml", True), ("goose.yaml", True), ("zed.json", False)]
)
def test_a_file_without_a_usual_suffix_is_read_in_the_form_of_its_client_or_its_content(
    tmp_path, name, is_named
):
    path = tmp_path / f"{name}.bak"
    path.write_bytes((DATA / name).read_bytes())
    client = CLIENTS[FILES[name]]
    found = client_documents.read_any(path, MACHINE, client if is_named else None)
    assert (found.client, len(found.servers)) == (client.name, len(read(name)))
    path.write_text("[1")
    expected = client.form.upper() if is_named else "JSON"
    with pytest.raises(PflowError, match=f"not {expected}"):
        client_documents.read_any(path, MACHINE, client if is_named else None)


@pytest.mark.parametrize("name", FILES)
def test_servers_put_into_their_own_file_leave_the_rest_of_it(name, tmp_path):
    client = CLIENTS[FILES[name]]
    path = tmp_path / name
    # By the name it has here, a server keeps the inputs it refers to.
    path.write_bytes((DATA / name).read_bytes().replace(b'"Perplexity"', b'"perplexity"'))
    before = document_text.load(path)
    found = tables(read(name))
    made = transfer_plans.merged(transfer_plans.plan_export(client, found), path)
    path.write_text(made.text, encoding="utf-8")
    after = document_text.load(path)
    place = client_documents.place_in(before, client)
    for document in (before, after):
        document.pop(place[0], None)
        document.pop("inputs", None)
    assert after == before
    assert tables(read(path, client.name)).items() >= found.items()


def test_each_input_of_a_file_becomes_a_variable_of_its_own(tmp_path):
    path = tmp_path / "mcp.json"
    ids = ["api-token", "api_token", "API_TOKEN"]
    inputs = [{"type": "promptString", "id": each, "description": "x"} for each in ids]
    args = [f"${{input:{each}}}" for each in ids]
    path.write_text(json.dumps({"inputs": inputs, "servers": {"a": {"command": "x", "args": args}}}))
    found = tables(read(path, "vscode"))["a"]["args"]
    assert found == ["${API_TOKEN}", "${API_TOKEN_2}", "${API_TOKEN_3}"]


LOST = {
    "claude-code.json": {"linear": ["headersHelper"]},
    "cursor.json": {"notes": ["envFile"]},
    "vscode.json": {"perplexity": ["dev"]},
    "windsurf.json": {"events": ["alwaysAllow"]},
    "codex.toml": {"internal": ["default_tools_approval_mode"]},
    "gemini-cli.json": {"pythontools": ["trust"]},
    "opencode.json": {"sentry": ["oauth"]},
}


@pytest.mark.parametrize("name", FILES)
def test_what_has_no_equivalent_here_is_listed(name):
    found = {server: [*reading.lost] for server, reading in read(name).items() if reading.lost}
    assert found == LOST.get(name, {})


@pytest.mark.parametrize(
    ("name", "server", "words"),
    [
        ("zed.json", "mcp-server-github", "an extension of Zed starts it"),
        ("goose.yaml", "developer", "part of Goose (type builtin)"),
        ("opencode.json", "jira", "only turns a server of an organisation on or off"),
    ],
)
def test_what_is_no_server_to_start_or_reach_is_left_out_with_the_reason(name, server, words):
    assert words in read(name)[server].reason


@pytest.mark.parametrize(
    ("name", "server", "fields"),
    [
        ("claude-code.json", "api-server", {"command": "${TOOLS_DIR:-/opt/tools}/api-server"}),
        ("claude-code.json", "api-server", {"call_timeout": 900, "call_timeout_max": 900}),
        ("claude-code.json", "api-server", {"env": {"API_KEY": "${API_KEY}", "CACHE_DIR": "/tmp"}}),
        ("cursor.json", "linear-issues", {"headers": {"Authorization": "Bearer ${LINEAR_TOKEN}"}}),
        ("vscode.json", "perplexity", {"env": {"PERPLEXITY_API_KEY": "${PERPLEXITY_KEY}"}}),
        ("vscode.json", "perplexity", {"env": {"LOG_LEVEL": "${LOG_LEVEL:-info}"}}),
        ("windsurf.json", "events", {"url": "https://events.example.com/sse", "disabled": True}),
        ("zed.json", "run-tests", {"args": ["run", "--quiet", "--bin", "test-server"], "call_timeout": 120}),
        ("codex.toml", "figma", {"headers": {"X-Figma-Region": "us-east-1", "X-Team": "${FIGMA_TEAM}"}}),
        ("codex.toml", "figma", {"headers": {"Authorization": "Bearer ${FIGMA_OAUTH_TOKEN}"}}),
        ("gemini-cli.json", "pythontools", {"cwd": "./mcp-servers/python", "call_timeout": 15}),
        ("gemini-cli.json", "pythontools", {"tools": {"allow": ["safe_tool", "file_reader"]}}),
        ("gemini-cli.json", "pythontools", {"env": {"DATABASE_URL": "${DB_CONNECTION_STRING}"}}),
        ("gemini-cli.json", "stream", {"type": "sse", "url": "https://events.example.com/stream"}),
        ("opencode.json", "everything", {"args": ["-y", "@modelcontextprotocol/server-everything"]}),
        ("opencode.json", "everything", {"command": "npx", "list_timeout": 10}),
        ("goose.yaml", "github", {"command": "npx", "call_timeout": 300}),
        ("goose.yaml", "github", {"env": {"GITHUB_HOST": "github.com", "PER_PAGE": "50"}}),
    ],
)
def test_names_units_and_references_of_a_client_become_ours(name, server, fields):
    table = read(name)[server].table
    for field, wanted in fields.items():
        if isinstance(wanted, dict):
            assert wanted.items() <= table[field].items()
        else:
            assert table[field] == wanted


def test_servers_of_projects_say_their_project():
    content = client_documents.read_any(DATA / "claude-code.json", MACHINE, CLIENTS["claude-code"])
    projects = {server.name: server.project for server in content.servers}
    assert projects == {"github": "", "linear": "", "api-server": "", "postgres": "/home/ada/work/shop"}


@pytest.mark.parametrize("target", CLIENTS)
@pytest.mark.parametrize(
    "name", ["mcp.json", "codex.toml", "gemini-cli.json", "vscode.json", "claude-code.json"]
)
def test_an_export_to_any_client_loses_only_what_it_lists(name, target, tmp_path):
    client = CLIENTS[target]
    given = servers(tables(read(name)))
    plan = transfer_plans.plan_export(client, tables(read(name)))
    written = {server.name for server in plan.servers if not server.reason}
    back = servers(read_back(client, plan.document({}), tmp_path) if written else {})
    assert set(back) == written
    for server in plan.servers:
        if server.reason:
            continue
        words = {re.split(r"[.:\[]", item)[0] for item in server.lost}
        listed = {THEIR_NAMES.get(word, word) for word in words}
        listed |= {"args"} if target == "opencode" and "command" in listed else set()
        changed = {
            field.name
            for field in attrs.fields(server_schema.Server)
            if getattr(given[server.name], field.name) != getattr(back[server.name], field.name)
        }
        authorised = {"auth", "headers"} if given[server.name].auth else set()
        assert changed <= listed | authorised, f"{server.name}: {server.lost}"


@pytest.mark.parametrize("target", CLIENTS)
def test_nothing_of_a_secret_behind_a_reference_is_written(target, monkeypatch):
    assert target in FILES.values()
    monkeypatch.setenv("TOKEN", "planted-4711")
    table = {"command": "x", "args": ["--token=${TOKEN}"], "env": {"TOKEN": "${TOKEN}", "B": "${TOKEN:-b}"}}
    plan = transfer_plans.plan_export(CLIENTS[target], {"a": table})
    assert "planted" not in document_text.dump(plan.document({}), CLIENTS[target].form)


@pytest.mark.parametrize(
    ("name", "client"),
    [
        ("zed.json", "zed"),
        ("codex.toml", "codex"),
        ("goose.yaml", "goose"),
        ("vscode.json", "vscode"),
        ("vscode-settings.json", "vscode"),
        ("opencode.json", "opencode"),
        ("claude-code.json", "claude-code"),
        ("cursor.json", "mcp-json"),
    ],
)
def test_the_format_of_a_file_is_recognised_by_its_content(name, client):
    assert client_documents.read_any(DATA / name, MACHINE).client == client


def test_the_servers_of_70_real_configs_are_all_read_and_only_names_change(tmp_path):
    renamed = []
    for real in livemcpbench.servers():
        given, table = real.given, real.config
        path = tmp_path / "one.json"
        path.write_text(json.dumps({"mcpServers": {given: table}}))
        [server] = client_documents.read_any(path, MACHINE).servers
        assert server.reading.problems == ()
        assert {**server.reading.table, **{key: table[key] for key in server.reading.lost}} == table
        servers({server.name: server.reading.table})
        renamed += [(given, server.name)] if given != server.name else []
    assert ("Ant Design Components", "ant-design-components") in renamed
    assert all(re.fullmatch("[a-z0-9-]+", name) for _, name in renamed)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"mcpServers": "x"}', "mcpServers must be a table of servers, not a string"),
        ('{"mcpServers": {}}', "contains no server"),
        ("[]", "must contain a table, not a list"),
        ("null", "contains no server"),
    ],
)
def test_a_file_of_another_shape_is_named_with_what_is_wrong(content, words, tmp_path):
    path = tmp_path / "mcp.json"
    path.write_text(content)
    with pytest.raises(PflowError) as caught:
        client_documents.read_any(path, MACHINE, CLIENTS["cursor"])
    assert str(path) in caught.value.message
    assert words in caught.value.message
    assert (caught.value.kind == "usage") == (words == "contains no server")


def test_a_server_that_is_no_table_is_left_out_and_a_clients_own_file_without_servers_no_error(tmp_path):
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"mcpServers": {"a": None, "b": {"command": "x"}}}))
    first, second = client_documents.read_any(path, MACHINE, CLIENTS["cursor"]).servers
    assert "not a table" in first.reading.reason
    assert second.reading.table == {"command": "x"}
    path.write_text('{"theme": "dark"}')
    content = client_documents.read(FoundFile(client=CLIENTS["zed"], path=path), MACHINE)
    assert (content.servers, content.error) == ((), None)


_INNER_KEYS = st.sampled_from(["name", "type", "default", "value", "id", "path", "env"])
_TEXTS = st.sampled_from(["", "stdio", "x", "${A}", "https://x.example"])
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_INNER_KEYS, inner, max_size=3),
    max_leaves=6,
)
_FORMS = [client.format for client in CLIENTS.values()]
_KEYS = sorted(
    {"type", *URLS}.union(*({*form.rearranged, *(it.theirs for it in form.fields)} for form in _FORMS))
)
_SERVERS = st.dictionaries(
    st.sampled_from(["a", "B c", "${x}"]), st.dictionaries(st.sampled_from(_KEYS), _VALUES) | _VALUES
)
_PACKAGE_KEYS = ["registryType", "identifier", "version", "environmentVariables", "packageArguments"]
_PACKAGES = st.lists(
    st.dictionaries(st.sampled_from(_PACKAGE_KEYS), st.sampled_from(["npm", "oci"]) | _VALUES) | _VALUES
)


@given(st.data(), st.sampled_from(sorted(CLIENTS)))
def test_a_document_of_any_content_is_read_or_refused_in_words(data, name):
    client = CLIENTS[name]
    keys = ("mcpServers", "inputs", *(place[0] for place in client.places))
    document = {key: data.draw(_SERVERS | _VALUES) for key in keys}
    with suppress(PflowError):
        for found in client_documents._servers(document, client, Path("/x/mcp.json"), MACHINE):
            server_schema.check_server(found.name, found.reading.table)


@given(
    _PACKAGES | _VALUES,
    st.lists(_VALUES) | _VALUES,
    st.dictionaries(st.sampled_from(["mcp_config", "type"]), _VALUES),
    _VALUES,
)
def test_a_manifest_of_any_content_is_read_or_left_out(packages, remotes, server, settings):
    registry = {"name": "a/b", "packages": packages, "remotes": remotes}
    bundle = {"name": "b", "manifest_version": "1", "server": server, "user_config": settings}
    if client_documents.is_registry_manifest(registry):
        client_documents._manifest(registry, Path("/x/server.json"), MACHINE)
    client_documents._manifest(bundle, Path("/x/manifest.json"), MACHINE)


def test_the_client_and_the_folder_of_a_project_are_known_by_the_place_of_its_file(tmp_path):
    for name, key, client in (
        (".vscode/mcp.json", "servers", "vscode"),
        (".cursor/mcp.json", "mcpServers", "cursor"),
    ):
        path = tmp_path / "shop" / name
        path.parent.mkdir(parents=True)
        table = {"command": "${workspaceFolder}/run", "args": ["${workspaceFolderBasename}"]}
        path.write_text(json.dumps({key: {"a": table}}))
        content = client_documents.read_any(path, MACHINE)
        [server] = content.servers
        assert content.client == client
        assert server.reading.table == {"command": f"{tmp_path}/shop/run", "args": ["shop"]}
