"""The assertion that a preset starts, with what it says when the preset does not."""

from __future__ import annotations

import sys

import attrs
import pytest

from pflow_mcp_plugin.testing import assert_preset_starts
from pflow_mcp_plugin.types import PresetInput, ServerPreset

pytestmark = pytest.mark.programs

DEMO = ServerPreset(
    name="demo-here",
    title="Demo",
    description="The bundled server",
    command=sys.executable,
    args=("-m", "pflow_mcp_plugin.server.demo_server"),
)


def test_the_tools_of_a_preset_that_starts_are_returned(pflow_host, no_leftovers):
    assert assert_preset_starts(attrs.evolve(DEMO, tools=("re*",)), host=pflow_host) == ("remember", "recall")


def test_a_preset_is_found_by_its_name():
    assert "word_count" in assert_preset_starts("demo")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"args": ("-c", "raise SystemExit('no licence')")}, ["does not start", "no licence"]),
        ({"command": "no-such-program"}, ["does not start", "Command not found: no-such-program"]),
        (
            {"tools": ("delete_*",), "rename": {"sum": "add"}, "manifest_hash": "sha256:" + 64 * "0"},
            ["does not fit its server", "delete_*", "`rename`", "sum", "all of it: sha256:"],
        ),
        (
            {
                "inputs": (PresetInput(name="KEY", description="A key", secret=True),),
                "env": {"KEY": "${KEY}"},
            },
            ["cannot be added", "KEY (A key)"],
        ),
    ],
    ids=["it exits", "no program", "other tools", "an input"],
)
def test_a_failure_says_what_is_wrong(changed, said):
    with pytest.raises(AssertionError) as raised:
        assert_preset_starts(attrs.evolve(DEMO, **changed))
    assert [words for words in said if words not in str(raised.value)] == []


def test_a_name_that_no_plugin_offers_is_a_failure():
    with pytest.raises(AssertionError, match="No preset is named demmo"):
        assert_preset_starts("demmo")
