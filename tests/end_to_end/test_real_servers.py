"""Workflows on real servers, over stdio and HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.servers

TEXT = 'grüße 你好 مرحبا 🎉 "quoted" \\ and\na second line'


def _add(pflow, name, command):
    assert pflow("mcp", "add", name, "--", *command).exit_code == 0
    synced = pflow("mcp", "sync", name, "--json")
    assert synced.exit_code == 0, synced.stderr
    return synced.envelope["data"][0]


def test_a_file_is_written_and_read_back_under_name_and_alias(
    pflow, filesystem_command, workflow, tmp_path, no_leftovers
):
    assert _add(pflow, "fs", filesystem_command)["tools_registered"] == 14
    file = str(tmp_path / "files" / "note.txt")
    path = workflow(
        ("write", "mcp-fs-write-file", {"path": file, "content": "${text}"}),
        ("read", "mcp-fs-read-text-file", {"path": file}),
        ("again", "mcp-fs-read_text_file", {"path": "${path}"}),
        inputs={"text": {"type": "string"}, "path": {"type": "string", "default": file}},
        outputs={"content": "${read.content}", "again": "${again.content}"},
    )
    ran = pflow("run", path, f"text={TEXT}", "--json", env={"LC_ALL": "C"})
    assert ran.exit_code == 0, ran.stderr
    assert ran.envelope["data"]["outputs"] == {"content": TEXT, "again": TEXT}


def test_the_same_shape_runs_over_http(pflow, everything_http, workflow, no_leftovers):
    assert pflow("mcp", "add", "web", everything_http).exit_code == 0
    assert pflow("mcp", "sync", "web", "--json").envelope["data"][0]["tools_registered"] == 13
    path = workflow(
        ("echo", "mcp-web-echo", {"message": "${text}"}),
        ("weather", "mcp-web-get-structured-content", {"location": "New York"}),
        ("image", "mcp-web-get-tiny-image", {}),
        inputs={"text": {"type": "string"}},
        outputs={
            "echo": "${echo.result}",
            "degrees": "${weather.temperature}",
            "image": "${image.result[1]}",
        },
    )
    ran = pflow("run", path, f"text={TEXT}", "--json")
    assert ran.exit_code == 0, ran.stderr
    outputs = ran.envelope["data"]["outputs"]
    assert outputs["echo"] == f"Echo: {TEXT}"
    assert outputs["degrees"] == 33
    assert outputs["image"]["mimeType"] == "image/png"
    assert Path(outputs["image"]["path"]).read_bytes().startswith(b"\x89PNG")
    tested = pflow("mcp", "test", "web", "--json").envelope["data"]
    assert tested["protocol"] == "2025-11-25"
    assert {"start", "handshake", "list"} <= set(tested["milliseconds"])


def test_the_time_server_speaks_the_stateless_protocol(pflow, time_command, workflow, no_leftovers):
    assert _add(pflow, "time", time_command)["tools_registered"] == 2
    tested = pflow("mcp", "test", "time", "--json").envelope["data"]
    assert tested["protocol"] == "2026-07-28"
    assert {"start", "handshake", "list"} <= set(tested["milliseconds"])
    path = workflow(
        ("now", "mcp-time-get-current-time", {"timezone": "UTC"}), outputs={"zone": "${now.result.timezone}"}
    )
    assert pflow("run", path, "--json").envelope["data"]["outputs"] == {"zone": "UTC"}
