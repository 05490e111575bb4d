"""A preset with values becomes the table of a server."""

from __future__ import annotations

import pytest

from pflow_mcp_plugin.presets.collection import server_table
from pflow_mcp_plugin.types import PresetInput, ServerPreset

FOLDER = PresetInput(name="folder", description="A folder")
TOKEN = PresetInput(name="TOKEN", description="A token", secret=True)
ZONE = PresetInput(name="zone", description="A zone", required=False)


URL = "https://example.com/sse"
PASSED_ON = {
    "rename": {"read_all": "read"},
    "idempotency_argument": {"pay": "key"},
    "verify": {"put": {"tool": "get", "happened": "result"}},
    "startup_timeout": 9,
    "call_timeout": 90,
}


@pytest.mark.parametrize(
    ("fields", "inputs", "texts", "table"),
    [
        (
            {"command": "npx", "args": ("-y", "acme@1.2.3", "${folder}/x"), "env": {"TOKEN": "${TOKEN}"}},
            (FOLDER, TOKEN),
            {"folder": "/data", "TOKEN": "${WORK_TOKEN}"},
            {"command": "npx", "args": ["-y", "acme@1.2.3", "/data/x"], "env": {"TOKEN": "${WORK_TOKEN}"}},
        ),
        (
            {"command": "server", "args": ("--zone=${zone}", "run"), "env": {"ZONE": "${zone}", "A": "1"}},
            (ZONE,),
            {},
            {"command": "server", "args": ["run"], "env": {"A": "1"}},
        ),
        (
            {"transport": "sse", "url": URL, "headers": {"Authorization": "Bearer ${TOKEN}"}},
            (TOKEN,),
            {"TOKEN": "${TOKEN}"},
            {"type": "sse", "url": URL, "headers": {"Authorization": "Bearer ${TOKEN}"}},
        ),
        (
            {"command": "server", "tools": ("read_*",), **PASSED_ON},
            (),
            {},
            {"command": "server", "tools": {"allow": ["read_*"]}, **PASSED_ON},
        ),
        (
            {"command": "server", "args": ("$${literal}",)},
            (),
            {},
            {"command": "server", "args": ["$${literal}"]},
        ),
    ],
    ids=["a secret stays a reference", "an absent input", "a url", "names and times", "an escaped reference"],
)
def test_a_preset_becomes_the_table_of_a_server(fields, inputs, texts, table):
    made = ServerPreset(name="acme", title="Acme", description="Does it", inputs=inputs, **fields)
    assert server_table(made, texts) == {**table, "preset": "acme"}
