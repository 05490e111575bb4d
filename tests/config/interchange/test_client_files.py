"""Where clients keep their files, on each system."""

from __future__ import annotations

from pathlib import Path

import pytest

from pflow_mcp_plugin.config.interchange import clients
from pflow_mcp_plugin.config.interchange.clients import CLIENTS, Machine, client
from pflow_mcp_plugin.contract import PflowError


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
        client("claude-dekstop")
    assert caught.value.suggestions == ("Did you mean claude-desktop?",)
    with pytest.raises(PflowError) as caught:
        client("zzz")
    assert caught.value.suggestions == (f"Known: {', '.join(CLIENTS)}",)
    assert client("gemini") is CLIENTS["gemini-cli"]
