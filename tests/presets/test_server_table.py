"""A preset with values becomes the table of a server."""

from __future__ import annotations

from pflow_mcp_plugin.presets.collection import server_table
from pflow_mcp_plugin.types import PresetInput, ServerPreset

FOLDER = PresetInput(name="folder", description="A folder")
TOKEN = PresetInput(name="TOKEN", description="A token", secret=True)
ZONE = PresetInput(name="zone", description="A zone", required=False)


def preset(**fields):
    return ServerPreset(name="acme", title="Acme", description="Does it", **fields)


def test_the_inputs_fill_the_command_and_the_secret_stays_a_reference():
    made = preset(
        command="npx",
        args=("-y", "acme@1.2.3", "${folder}/x"),
        env={"TOKEN": "${TOKEN}"},
        inputs=(FOLDER, TOKEN),
    )
    assert server_table(made, {"folder": "/data", "TOKEN": "${WORK_TOKEN}"}) == {
        "command": "npx",
        "args": ["-y", "acme@1.2.3", "/data/x"],
        "env": {"TOKEN": "${WORK_TOKEN}"},
        "preset": "acme",
    }


def test_what_refers_to_an_absent_input_is_left_out():
    made = preset(
        command="server", args=("--zone=${zone}", "run"), env={"ZONE": "${zone}", "A": "1"}, inputs=(ZONE,)
    )
    assert server_table(made, {}) == {
        "command": "server",
        "args": ["run"],
        "env": {"A": "1"},
        "preset": "acme",
    }


def test_a_url_has_its_type_and_headers():
    made = preset(
        transport="sse",
        url="https://example.com/sse",
        headers={"Authorization": "Bearer ${TOKEN}"},
        inputs=(TOKEN,),
    )
    assert server_table(made, {"TOKEN": "${TOKEN}"}) == {
        "type": "sse",
        "url": "https://example.com/sse",
        "headers": {"Authorization": "Bearer ${TOKEN}"},
        "preset": "acme",
    }


def test_tools_names_and_times_are_passed_on():
    made = preset(
        command="server",
        tools=("read_*",),
        rename={"read_all": "read"},
        idempotency_argument={"pay": "key"},
        verify={"put": {"tool": "get", "happened": "result"}},
        call_timeout=90,
        startup_timeout=9,
    )
    assert server_table(made, {}) == {
        "command": "server",
        "tools": {"allow": ["read_*"]},
        "rename": {"read_all": "read"},
        "idempotency_argument": {"pay": "key"},
        "verify": {"put": {"tool": "get", "happened": "result"}},
        "startup_timeout": 9,
        "call_timeout": 90,
        "preset": "acme",
    }


def test_an_escaped_reference_stays_escaped():
    assert server_table(preset(command="server", args=("$${literal}",)), {})["args"] == ["$${literal}"]
