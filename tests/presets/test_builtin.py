"""The built-in presets."""

from __future__ import annotations

import sys

import pytest

from pflow_mcp_plugin.config import server_schema
from pflow_mcp_plugin.presets import builtin
from pflow_mcp_plugin.presets.builtin_servers import PRESETS
from pflow_mcp_plugin.presets.collection import server_table
from pflow_mcp_plugin.variable_references import references

NAMES = (
    "demo filesystem git github fetch time memory everything sequential-thinking "
    "slack postgres sqlite playwright context7 notion duckdb"
)


def test_there_are_sixteen_of_them():
    assert [preset.name for preset in builtin.pflow_mcp_presets(host=None)] == NAMES.split()


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_each_becomes_a_valid_server_with_and_without_its_optional_inputs(preset):
    needed = {given.name: "/value" for given in preset.inputs if given.required}
    every = {given.name: given.default or "/value" for given in preset.inputs}
    for texts in (needed, every):
        assert server_schema.check_server(preset.name, server_table(preset, texts)) == []


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_each_downloads_an_exact_version_or_nothing_and_has_a_page_to_read(preset):
    assert preset.packages or preset.url or preset.command == sys.executable
    assert len(preset.description) <= 90
    assert preset.homepage.startswith("https://")


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_each_refers_to_its_inputs_of_which_those_that_are_named_as_a_variable_are_secrets(preset):
    texts = (preset.url, *preset.args, *preset.env.values(), *preset.headers.values())
    assert {found.name for text in texts for found in references(text)} == {it.name for it in preset.inputs}
    assert [given.secret for given in preset.inputs] == [given.name.isupper() for given in preset.inputs]
