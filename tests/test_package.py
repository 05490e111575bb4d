"""The package as it is installed: what it announces, what it ships, what it costs to start."""

from __future__ import annotations

import json
import re
from importlib.metadata import entry_points, version
from importlib.resources import files
from pathlib import Path

import pytest

HEAVY = {
    *("asyncio", "filelock", "jmespath", "importlib.metadata", "jsonschema", "mcp", "opentelemetry"),
    *("pflow_mcp_plugin.client.pool", "pflow_mcp_plugin.host.workflow", "pocketflow", "pydantic", "rich"),
    "tomli_w",
}

LOADED = """
import json, sys
from pflow_mcp_plugin.__main__ import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print("\\n" + json.dumps(sorted(sys.modules)))
"""


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


@pytest.mark.parametrize(
    "line",
    [
        *("mcp list", "mcp tools", "mcp presets", "registry list", "registry search file"),
        *("registry describe echo", "plugins", "--help"),
    ],
)
def test_listing_loads_nothing_heavy(line, python):
    done = python("-c", LOADED, *line.split())
    assert (done.exit_code, done.stderr) == (0, "")
    assert HEAVY.isdisjoint(json.loads(done.stdout.splitlines()[-1]))


def test_the_host_does_not_know_the_word():
    modules = list((Path(str(files("pflow_mcp_plugin"))) / "host").rglob("*.py"))
    assert modules
    said = [module.name for module in modules if re.search("mcp", _own_words(module), re.IGNORECASE)]
    assert said == []


def _own_words(module):
    return module.read_text(encoding="utf-8").replace("pflow_mcp_plugin", "")
