"""`pflow mcp serve --print-config` and `--install`, in a home of its own."""

import json
import shutil
import sys
import tomllib
from pathlib import Path

import pytest

from pflow_mcp_plugin.cli import client_setup
from pflow_mcp_plugin.cli.serve import serve as serve_command
from pflow_mcp_plugin.config import document_text
from pflow_mcp_plugin.config.interchange.clients import client

DATA = Path(__file__).parents[1] / "data" / "clients"
FILES = {
    "claude-desktop": ".config/Claude/claude_desktop_config.json",
    "claude-code": ".claude.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".config/Code/User/mcp.json",
    "codex": ".codex/config.toml",
    "gemini": ".gemini/settings.json",
    "zed": ".config/zed/settings.json",
    "opencode": ".config/opencode/opencode.json",
}
PLACES = {
    "vscode": ("servers",),
    "codex": ("mcp_servers",),
    "zed": ("context_servers",),
    "opencode": ("mcp",),
}


@pytest.fixture
def serve(typed, home):
    return lambda *arguments: typed("mcp", "serve", *arguments)


def existing(home, name):
    """Give a client a file with servers of the user's."""
    stem = "gemini-cli" if name == "gemini" else name
    path = home / FILES[name]
    path.parent.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(next(DATA.glob(f"{stem}.*")), path))


def servers(document, name):
    for key in PLACES.get(name, ("mcpServers",)):
        document = document[key]
    return document


def test_a_config_is_printed_with_the_file_that_it_belongs_into(serve, home):
    done = serve("--print-config", "zed")
    assert json.loads(done.stdout)["context_servers"]["pflow"]["args"][-1] == "serve"
    assert str(home / FILES["zed"]) in done.stderr


def test_of_path_absolute_folders_that_exist_are_passed_on_once(serve, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:.:/no/such/folder:{tmp_path}:/usr/bin")
    done = serve("--print-config", "codex")
    written = tomllib.loads(done.stdout)["mcp_servers"]["pflow"]["env"]["PATH"].split(":")
    assert written.count(str(tmp_path)) == 1
    assert {".", "/no/such/folder"}.isdisjoint(written)


@pytest.mark.parametrize("name", FILES)
def test_it_is_installed_beside_all_that_a_file_holds_as_our_own_import_understands_it(
    serve, typed, home, tmp_path, name
):
    path = existing(home, name)
    before = path.read_bytes()
    kept = document_text.parse(path, before)
    options = ["--root", str(tmp_path), "--tools", "workflow_*", "--read-only"]
    done = serve("--install", name, *options, "--json")
    assert done.exit_code == 0, done.stderr
    data = done.envelope["data"]
    assert (data["path"], data["changed"], data["replaced"]) == (str(path), True, [])
    assert Path(data["backup"]).read_bytes() == before
    document = document_text.load(path)
    del servers(document, name)["pflow"]
    assert document == kept
    after = path.read_bytes()
    assert "Already there" in serve("--install", name, *options).stdout
    assert path.read_bytes() == after
    assert [found.name for found in path.parent.glob("*.bak*")] == [f"{path.name}.bak"]
    assert typed("mcp", "import", path, "--as", "gemini-cli" if name == "gemini" else name).exit_code == 0
    config = tomllib.loads((tmp_path / "home/config/mcp-servers.toml").read_text())
    table = config["mcpServers"]["pflow"]
    assert table["args"][-len(options) - 2 :] == ["mcp", "serve", *options]
    assert Path(table["command"]).is_absolute()
    assert table["env"].keys() == {"PATH", "PFLOW_HOME"}
    assert table["env"]["PFLOW_HOME"] == str(tmp_path / "home")


def test_an_older_setup_is_brought_up_to_date_and_its_own_fields_stay(serve, home):
    path = home / ".gemini" / "settings.json"
    path.parent.mkdir()
    old = {"command": "/old/bin/pflow", "args": ["serve", "mcp"], "trust": True}
    path.write_text(json.dumps({"mcpServers": {"pflow": old}}))
    assert serve("--install", "gemini", "--json").envelope["data"]["replaced"] == ["pflow"]
    table = json.loads(path.read_text())["mcpServers"]["pflow"]
    assert (table["args"][-2:], table["trust"]) == (["mcp", "serve"], True)


@pytest.mark.parametrize(
    "other", [{"url": "https://a.example"}, {"command": "pflow", "args": ["run", "x"]}, 7]
)
def test_another_server_of_that_name_is_replaced_only_if_that_is_wanted(serve, home, other):
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    before = json.dumps({"mcpServers": {"pflow": other}})
    path.write_text(before)
    refused = serve("--install", "cursor")
    assert refused.exit_code == 2
    assert "has a server named pflow that is not pflow" in refused.stderr
    assert path.read_text() == before
    assert serve("--install", "cursor", "--name", "flows").exit_code == 0
    assert set(json.loads(path.read_text())["mcpServers"]) == {"pflow", "flows"}
    assert serve("--install", "cursor", "--force").exit_code == 0
    assert "serve" in json.loads(path.read_text())["mcpServers"]["pflow"]["args"]


@pytest.mark.parametrize("text", ["{oops", '{"mcpServers": []}', "\xff\xfe"])
def test_a_file_that_is_not_understood_is_left_alone(serve, home, text):
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_bytes(text.encode("latin-1"))
    done = serve("--install", "cursor")
    assert done.exit_code == 2
    assert "mcp.json" in done.stderr or "mcpServers" in done.stderr
    assert path.read_bytes() == text.encode("latin-1")
    assert list(path.parent.iterdir()) == [path]


def test_comments_stay(serve, home):
    for name, text in (("zed", "// mine\n{}\n"), ("codex", '# mine\nmodel = "x"\n')):
        path = home / FILES[name]
        path.parent.mkdir(parents=True)
        path.write_text(text)
        done = serve("--install", name)
        assert (done.exit_code, done.stderr) == (0, "")
    assert (home / FILES["zed"]).with_name("settings.json.bak").read_text() == "// mine\n{}\n"
    assert (home / FILES["zed"]).read_text().startswith('// mine\n{\n  "context_servers"')
    assert (home / FILES["codex"]).read_text().startswith('# mine\nmodel = "x"\n')


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--print-config curser", "Did you mean cursor?"),
        ("--install cursor --print-config cursor", "--print-config"),
        ("--http localhost:0 --print-config cursor", "--http HOST:PORT"),  # nobody knows the port yet
    ],
)
def test_what_cannot_be_set_up_is_refused(serve, line, words):
    done = serve(*line.split())
    assert (done.exit_code, done.stdout) == (2, "")
    assert words in done.stderr


def test_a_format_that_no_client_owns_is_printed_and_not_installed(serve):
    printed = serve("--print-config", "mcp-json", "--json").envelope["data"]
    assert (printed["client"], printed["path"]) == ("mcp-json", None)
    assert "pflow" in json.loads(printed["text"])["mcpServers"]
    assert serve("--install", "mcp-json").exit_code == 2


def test_the_users_file_is_written_where_a_project_or_an_older_file_exists_too(serve, home, tmp_path):
    for path in (home / ".config/Code/User/settings.json", tmp_path / ".vscode/mcp.json"):
        path.parent.mkdir(parents=True)
        path.write_text("{}")
    done = serve("--install", "vscode")
    assert str(home / FILES["vscode"]) in done.stdout
    assert (home / FILES["vscode"]).stat().st_mode & 0o777 == 0o600  # only its user can read it
    assert "restart Cursor" in serve("--install", "cursor").stdout


def setup(name, *arguments):
    with serve_command.make_context("serve", list(arguments)) as context:
        return client_setup.setup_plan(client(name), "pflow", context)


def written(name, *arguments):
    made = setup(name, *arguments)
    return document_text.dump(made.document({}), made.client.form)


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("vscode", "Bearer ${input:pflow-serve-token}"),
        ("codex", 'bearer_token_env_var = "PFLOW_SERVE_TOKEN"'),
    ],
)
def test_over_http_the_token_is_a_reference_in_the_clients_syntax(monkeypatch, name, reference):
    monkeypatch.setenv("PFLOW_SERVE_TOKEN", "planted-4711")
    text = written(name, "--http", "0.0.0.0:8765")
    assert reference in text
    assert "http://127.0.0.1:8765/mcp" in text
    assert "planted" not in text
    assert "command" not in text
    assert "https://127.0.0.1:1/mcp" in written(name, "--http", ":1", "--tls-cert", "cert.pem")


def test_what_serves_is_recognized_over_http_too():
    for name in ("vscode", "cursor", "codex", "opencode"):
        made = setup(name, "--http", "localhost:1")
        (server,) = servers(made.document({}), name).values()
        assert client_setup._is_pflow(server, made.client)


def test_every_option_that_was_given_is_passed_on():
    text = written("cursor", "--no-shell", "--workflows", "a-*", "${b}")
    args = json.loads(text)["mcpServers"]["pflow"]["args"]
    assert args[args.index("serve") + 1 :] == ["--no-shell", "--workflows", "a-*", "--workflows", "${b}"]


def test_without_a_script_beside_it_the_program_is_started_by_its_python(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python3"))
    table = json.loads(written("cursor"))["mcpServers"]["pflow"]
    assert table["command"] == str(tmp_path / "python3")
    assert table["args"] == ["-P", "-m", "pflow_mcp_plugin", "mcp", "serve"]
