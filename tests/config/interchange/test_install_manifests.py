"""A `server.json` of the MCP Registry, and the `manifest.json` of an MCP bundle."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import pytest

from pflow_mcp_plugin.config import server_schema
from pflow_mcp_plugin.config.interchange import client_documents, install_manifests
from pflow_mcp_plugin.config.interchange.clients import Machine
from pflow_mcp_plugin.config.interchange.server_translation import NoEquivalent

DATA = Path(__file__).parents[2] / "data" / "clients"
MACHINE = Machine(system="linux", home=Path("/home/ada"), folder=Path("/work"), variables={})


def server(**offers):
    return install_manifests.registry_server({"name": "io.github.example/tool", **offers})


def read(path, machine=MACHINE):
    [found] = client_documents.read_any(path, machine).servers
    return found


def package(kind, identifier="example", **more):
    return {"registryType": kind, "identifier": identifier, "version": "1.2.3", **more}


def test_a_file_or_an_answer_of_the_registry_is_read_with_its_arguments_and_variables(tmp_path):
    found = read(DATA / "server.json")
    station = ("--station", "${WEATHER_MCP_STATION}")
    units = ("--units", "${WEATHER_MCP_UNITS:-metric}")
    assert found.name == "weather-mcp"
    assert found.reading.table == {
        "command": "uvx",
        "args": ["weather-mcp-server==0.5.0", "serve", *station, *units],
        "env": {"WEATHER_API_KEY": "${WEATHER_API_KEY}", "WEATHER_LANGUAGE": "${WEATHER_LANGUAGE:-en}"},
    }
    assert found.reading.lost == ("optional WEATHER_PROXY", "1 other way to run it")
    assert server_schema.check_server(found.name, found.reading.table) == []
    answer = tmp_path / "answer.json"
    answer.write_text(json.dumps({"server": json.loads((DATA / "server.json").read_text()), "_meta": {}}))
    assert read(answer).reading == found.reading


@pytest.mark.parametrize(
    ("kind", "command", "args"),
    [
        ("npm", "npx", ["-y", "example@1.2.3"]),
        ("pypi", "uvx", ["example==1.2.3"]),
        ("oci", "docker", ["run", "-i", "--rm", "-e", "KEY", "example:1.2.3"]),
        ("nuget", "dnx", ["example@1.2.3", "--yes"]),
    ],
)
def test_each_kind_of_package_has_its_runner(kind, command, args):
    variables = [{"name": "KEY", "isRequired": True, "isSecret": True}]
    name, table, lost = server(packages=[package(kind, environmentVariables=variables)])
    assert (name, lost) == ("tool", ())
    assert table == {"command": command, "args": args, "env": {"KEY": "${KEY}"}}


def test_an_image_with_its_tag_keeps_it():
    image = {"registryType": "oci", "identifier": "docker.io/example/tool:2.0"}
    value = {"value": "type=bind,src={path}", "variables": {"path": {"isRequired": True}}}
    mount = {"type": "named", "name": "--mount", **value}
    _, table, _ = server(packages=[{**image, "runtimeArguments": [mount]}])
    assert table["args"][:3] == ["run", "-i", "--rm"]
    assert table["args"][3:] == ["--mount", "type=bind,src=${TOOL_PATH}", "docker.io/example/tool:2.0"]


def test_a_remote_is_taken_when_no_package_can_be_run():
    header = {"name": "Authorization", "value": "Bearer {token}", "variables": {"token": {"isSecret": True}}}
    url = {"url": "https://{tenant}.example.com/mcp", "variables": {"tenant": {"default": "eu"}}}
    remote = {"type": "streamable-http", **url, "headers": [header, {"name": "X-Trace"}]}
    _, table, lost = server(packages=[package("mcpb")], remotes=[remote])
    assert table == {
        "type": "http",
        "url": "https://${TOOL_TENANT:-eu}.example.com/mcp",
        "headers": {"Authorization": "Bearer ${TOOL_TOKEN}"},
    }
    assert lost == ("optional X-Trace", "1 other way to run it")


def test_a_server_that_nothing_here_can_run_is_left_out_with_the_reason():
    with pytest.raises(NoEquivalent, match=r"no runner is known for its packages \(mcpb\)"):
        server(packages=[package("mcpb")])
    with pytest.raises(NoEquivalent):
        server(packages=[package("npm", transport={"type": "streamable-http", "url": "http://localhost:1/"})])


def test_the_references_of_a_bundle_become_folders_and_variables_and_what_a_platform_overrides_counts_there():
    found = read(DATA / "manifest.json")
    assert found.name == "file-search"
    assert found.reading.table == {
        "command": "node",
        "args": [
            f"{DATA}/server/index.js",
            "--limit=${FILE_SEARCH_LIMIT:-10}",
            "${HOME}/Desktop",
            "${HOME}/Documents",
        ],
        "env": {"API_KEY": "${FILE_SEARCH_API_KEY}", "CACHE": "${HOME}/.cache/file-search"},
    }
    assert found.reading.problems == ()
    there = read(DATA / "manifest.json", attrs.evolve(MACHINE, system="windows"))
    assert there.reading.table["command"] == "node.exe"


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
