"""The values that a user gives to a preset."""

from __future__ import annotations

from pathlib import Path

import pytest

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.presets.collection import lacking_inputs, parse_inputs, resolve_inputs
from pflow_mcp_plugin.types import PresetInput, ServerPreset

PRESET = ServerPreset(
    name="acme",
    title="Acme",
    description="Does it",
    command="server",
    args=("${folder}", "--mode=${mode}", "--note=${note}"),
    env={"TOKEN": "${TOKEN}", "EXTRA_KEY": "${EXTRA_KEY}"},
    inputs=(
        PresetInput(name="folder", description="A folder", path=True),
        PresetInput(name="mode", description="A mode", default="fast", choices=("fast", "slow")),
        PresetInput(name="note", description="A note", required=False),
        PresetInput(name="TOKEN", description="A token", secret=True),
        PresetInput(name="EXTRA_KEY", description="A key", secret=True, required=False),
    ),
)


def unset(name):
    return None


def test_values_are_parsed_and_empty_ones_are_none():
    assert parse_inputs(PRESET, ["folder=/a=b", "note=", "mode=slow"]) == {"folder": "/a=b", "mode": "slow"}


@pytest.mark.parametrize(("pair", "said"), [("folder", "NAME=VALUE"), ("foldr=/a", "no input foldr")])
def test_a_malformed_or_unknown_input_is_refused_and_the_inputs_are_named(pair, said):
    with pytest.raises(PflowError, match=said) as refused:
        parse_inputs(PRESET, [pair])
    assert refused.value.suggestions == ("Its inputs: folder, mode, note, TOKEN, EXTRA_KEY",)
    assert refused.value.exit_code == 2


def test_a_given_secret_becomes_a_reference_and_is_kept_apart():
    values = resolve_inputs(PRESET, {"folder": "/data", "TOKEN": "s3cret"}, unset)
    assert values.texts == {"folder": "/data", "mode": "fast", "TOKEN": "${TOKEN}"}
    assert values.secrets == {"TOKEN": "s3cret"}
    assert values.missing == ()


def test_all_missing_inputs_are_named_at_once():
    missing = resolve_inputs(PRESET, {}, unset).missing
    assert [each.name for each in missing] == ["folder", "TOKEN"]
    error = lacking_inputs(PRESET, missing)
    assert error.message == "Preset acme needs: folder (A folder), TOKEN (A token)"
    assert error.suggestions == ("pflow mcp add acme --input folder=...", "pflow settings set TOKEN -")
    assert error.exit_code == 2


def test_a_value_that_is_not_a_choice_is_refused():
    with pytest.raises(PflowError, match="cannot be 'medium'") as refused:
        resolve_inputs(PRESET, {"mode": "medium"}, unset)
    assert refused.value.suggestions == ("Choose from: fast, slow",)


def test_paths_are_made_absolute_unless_they_hold_a_reference(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for given, expected in {
        "notes": str(tmp_path / "notes"),
        "~/notes": str(Path.home() / "notes"),
        "${HOME}/notes": "${HOME}/notes",
    }.items():
        assert resolve_inputs(PRESET, {"folder": given}, unset).texts["folder"] == expected


def test_the_default_of_a_path_is_left_as_it_is():
    memory = PresetInput(name="file", description="A file", default=":memory:", path=True)
    made = ServerPreset(
        name="db", title="DB", description="Does it", command="db", args=("${file}",), inputs=(memory,)
    )
    assert resolve_inputs(made, {}, unset).texts == {"file": ":memory:"}
