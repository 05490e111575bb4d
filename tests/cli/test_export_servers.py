"""`pflow mcp export`, in a home of its own."""

import json
import tomllib

import pytest

CONFIG = """\
[mcpServers.hub]
command = "hub"
args = ["--level", "${LEVEL:-info}"]
env = { HUB_TOKEN = "${HUB_TOKEN}" }
inline_limit_kb = 64

[mcpServers.docs]
type = "http"
url = "https://docs.example.com/mcp"
auth = { type = "bearer", token = "${DOCS_TOKEN}" }

[mcpServers.socket]
type = "uds"
path = "/run/tools.sock"
"""


@pytest.fixture(autouse=True)
def _config(pflow_home):
    path = pflow_home / "config" / "mcp-servers.toml"
    path.parent.mkdir()
    path.write_text(CONFIG)
    path.chmod(0o600)


@pytest.fixture
def run(typed, home, monkeypatch):
    monkeypatch.setenv("HUB_TOKEN", "planted-4711")
    return lambda *arguments: typed("mcp", "export", *arguments)


def test_servers_are_printed_in_the_format_of_the_client_and_what_it_cannot_say_is_named(run):
    done = run("--to", "cursor")
    assert run("--to", "cursor", "--output", "-").stdout == done.stdout
    assert json.loads(done.stdout) == {
        "mcpServers": {
            "hub": {
                "type": "stdio",
                "command": "hub",
                "args": ["--level", "${env:LEVEL}"],
                "env": {"HUB_TOKEN": "${env:HUB_TOKEN}"},
            },
            "docs": {
                "type": "http",
                "url": "https://docs.example.com/mcp",
                "headers": {"Authorization": "Bearer ${env:DOCS_TOKEN}"},
            },
        }
    }
    assert "Cursor cannot express hub.inline_limit_kb" in done.stderr
    assert "Cursor cannot express hub.args[1]: the default of ${LEVEL}" in done.stderr
    assert "socket is left out of the export to Cursor: it has no uds servers" in done.stderr
    assert "planted" not in done.stdout + done.stderr


def test_the_envelope_lists_what_was_lost(run, home):
    data = run("--to", "zed", "--json").envelope["data"]
    assert (data["exported"], data["left_out"]) == (["hub", "docs"], {"socket": "it has no uds servers"})
    assert "inline_limit_kb" in data["cannot_say"]["hub"]
    assert data["client_file"] == str(home / ".config/zed/settings.json")


def test_servers_can_be_chosen_and_an_unknown_one_is_named(run):
    assert set(json.loads(run("--to", "mcp-json", "docs").stdout)["mcpServers"]) == {"docs"}
    wrong = run("--to", "mcp-json", "dosc")
    assert wrong.exit_code == 2
    assert "Did you mean docs?" in wrong.stderr
    for arguments in (("--to", "curser"), (), ("--to", "cursor", "socket")):
        done = run(*arguments)
        assert (done.exit_code, done.stdout) == (2, "")


def test_servers_are_put_into_a_file_and_the_file_as_it_was_is_kept(run, tmp_path):
    path = tmp_path / "mcp.json"
    before = '{"mcpServers": {"mine": {"command": "m"}, "hub": {"command": "old" /* 1 */}}} // mine'
    path.write_text(before)
    path.chmod(0o640)
    done = run("--to", "cursor", "hub", "--output", path, "--json")
    data = done.envelope["data"]
    assert (data["replaced"], data["backup"]) == (["hub"], f"{path}.bak")
    after = path.read_text()
    assert after.endswith("} // mine")
    assert set(json.loads(after.removesuffix(" // mine"))["mcpServers"]) == {"mine", "hub"}
    assert (tmp_path / "mcp.json.bak").read_text() == before
    assert "lost its comments" in done.stderr
    assert path.stat().st_mode & 0o777 == 0o640
    again = run("--to", "cursor", "hub", "--output", path, "--json")
    assert again.envelope["data"]["backup"] is None


def test_a_new_file_is_readable_by_its_owner_only(run, tmp_path):
    path = tmp_path / "new" / "config.toml"
    assert run("--to", "codex", "--output", path).exit_code == 0
    assert path.stat().st_mode & 0o777 == 0o600
    assert tomllib.loads(path.read_text())["mcp_servers"]["docs"]["bearer_token_env_var"] == "DOCS_TOKEN"
    assert not path.with_name("config.toml.bak").exists()


@pytest.mark.parametrize(("name", "text"), [("mcp.json", "{\n oops"), ("mcp-servers.toml", "[x]\n oops")])
def test_a_corrupt_file_is_not_written_over(run, tmp_path, pflow_home, name, text):
    path = (pflow_home / "config" if name == "mcp-servers.toml" else tmp_path) / name
    path.write_text(text)
    done = run("--to", "cursor", "--output", tmp_path / "mcp.json")
    assert done.exit_code == 2
    assert f"{path}, line 2" in done.stderr
    assert path.read_text() == text


def test_without_servers_it_says_how_to_add_one(run, pflow_home):
    (pflow_home / "config" / "mcp-servers.toml").unlink()
    done = run("--to", "cursor")
    assert done.exit_code == 2
    assert "-> Add one: pflow mcp add NAME -- COMMAND ARGS..." in done.stderr
