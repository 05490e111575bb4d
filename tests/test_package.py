"""The package as it is installed: what it announces, what it ships, what it costs to start."""

from __future__ import annotations

import json
from importlib.metadata import entry_points, version
from importlib.resources import files


def test_the_plugin_is_announced_to_hosts():
    (plugin,) = entry_points(group="pflow", name="mcp")
    assert plugin.value == "pflow_mcp_plugin.plugin"


def test_the_embedded_host_is_announced_to_nodes_that_run_alone():
    (host,) = entry_points(group="pflow.hosts", name="embedded")
    assert host.load().__name__ == "open_host"


def test_both_programs_start_the_same_thing():
    scripts = entry_points(group="console_scripts")
    values = {scripts[name].value for name in ("pflow", "pflow-mcp")}
    assert values == {"pflow_mcp_plugin.__main__:program"}


def test_types_and_the_config_schema_are_shipped():
    package = files("pflow_mcp_plugin")
    assert package.joinpath("py.typed").is_file()
    schema = package.joinpath("config/mcp-servers.schema.json").read_text(encoding="utf-8")
    assert json.loads(schema)["$schema"]


def test_the_program_tells_its_version(pflow):
    told = pflow("--version")
    assert told.exit_code == 0
    assert version("pflow-mcp") in told.stdout
