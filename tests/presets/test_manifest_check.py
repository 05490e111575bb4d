"""The tools of a server against those that its preset declares."""

from __future__ import annotations

import attrs
import pytest

from pflow_mcp_plugin.presets.collection import OfferedPreset, manifest_difference
from pflow_mcp_plugin.types import PresetInput, Server, ServerPreset

DECLARED, OTHER = ("sha256:" + digit * 64 for digit in "ab")
PRESET = ServerPreset(
    name="acme",
    title="Acme",
    description="Does it",
    command="npx",
    args=("-y", "acme@1.2.3", "${folder}"),
    inputs=(PresetInput(name="folder", description="A folder"),),
    manifest_hash=DECLARED,
)
OFFER = OfferedPreset(preset=PRESET, plugin="acme-plugin")
SERVER = Server(name="work", command="/opt/node/bin/npx", args=("-y", "acme@1.2.3", "/data"), preset="acme")


@pytest.mark.parametrize(
    ("offer", "server", "found"),
    [
        (OFFER, SERVER, DECLARED),
        (OFFER, attrs.evolve(SERVER, args=("-y", "acme@1.3.0", "/data")), OTHER),
        (OFFER, attrs.evolve(SERVER, command="bunx"), OTHER),
        (OfferedPreset(preset=attrs.evolve(PRESET, manifest_hash=""), plugin="x"), SERVER, OTHER),
    ],
    ids=["the same", "another version", "another program", "none known"],
)
def test_nothing_is_said_if_it_is_the_same_or_not_comparable(offer, server, found):
    assert manifest_difference(offer, server, found) is None
    assert manifest_difference(OFFER, SERVER, OTHER) is not None  # what it says is shown by `pflow mcp sync`
