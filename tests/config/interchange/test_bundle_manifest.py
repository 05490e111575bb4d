"""The `manifest.json` of an MCP bundle."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import attrs
import pytest

from pflow_mcp_plugin.config.interchange import client_documents, install_manifests
from pflow_mcp_plugin.config.interchange.clients import Machine

DATA = Path(__file__).parents[2] / "data" / "clients"
MACHINE = Machine(system="linux", home=Path("/home/ada"), folder=Path("/work"), variables={})


@pytest.fixture
def manifest(tmp_path):
    return Path(shutil.copy(DATA / "manifest.json", tmp_path))


def read(path, machine=MACHINE):
    [server] = client_documents.read_any(path, machine).servers
    return server


def test_its_references_become_folders_and_variables(manifest, tmp_path):
    server = read(manifest)
    assert server.name == "file-search"
    assert server.reading.table == {
        "command": "node",
        "args": [
            f"{tmp_path}/server/index.js",
            "--limit=${FILE_SEARCH_LIMIT:-10}",
            "${HOME}/Desktop",
            "${HOME}/Documents",
        ],
        "env": {"API_KEY": "${FILE_SEARCH_API_KEY}", "CACHE": "${HOME}/.cache/file-search"},
    }
    assert server.reading.problems == ()


def test_what_a_platform_overrides_counts_there(manifest):
    assert read(manifest, attrs.evolve(MACHINE, system="windows")).reading.table["command"] == "node.exe"


def test_a_manifest_without_a_command_is_left_out_with_the_reason(tmp_path):
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps({"manifest_version": "0.4", "name": "x", "server": {"type": "uv"}}))
    assert "only a client that knows bundles can start it" in read(path).reading.reason


def test_a_setting_of_a_bundle_stands_for_its_default_if_that_is_one_word():
    settings = {"on": {"default": True}, "n": {"default": 3}, "all": {"default": ["a"]}, "no": {}, "odd": 1}
    known = install_manifests.bundle_references({"name": "b", "user_config": settings}, Path("/x/${y}"))
    assert known["__dirname"] == "/x/$${y}"
    found = {key.partition(".")[2]: text for key, text in known.items() if key.startswith("user_config.")}
    assert found == {"on": "${B_ON:-true}", "n": "${B_N:-3}", "all": "${B_ALL}", "no": "${B_NO}"}
    several = ["${user_config.all}", "${user_config.n}"]
    for args, wanted in (("one", ["one"]), (several, ["a", "${user_config.n}"])):
        document = {"server": {"mcp_config": {"command": "x", "args": args}}, "user_config": settings}
        _, table = install_manifests.bundle_server(document, "linux")
        assert table == {"command": "x", "args": wanted}
