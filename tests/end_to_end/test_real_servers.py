"""Workflows on real servers, over stdio and HTTP."""

from __future__ import annotations

import subprocess
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
        ("sum", "mcp-web-get-sum", {"a": 2, "b": 40}),
        ("weather", "mcp-web-get-structured-content", {"location": "New York"}),
        ("image", "mcp-web-get-tiny-image", {}),
        ("links", "mcp-web-get-resource-links", {"count": 2}),
        inputs={"text": {"type": "string"}},
        outputs={
            "echo": "${echo.result}",
            "sum": "${sum.result}",
            "temperature": "${weather.temperature}",
            "image": "${image.result[1]}",
            "link": "${links.result[1].uri}",
        },
    )
    ran = pflow("run", path, f"text={TEXT}", "--json")
    assert ran.exit_code == 0, ran.stderr
    outputs = ran.envelope["data"]["outputs"]
    assert outputs["echo"] == f"Echo: {TEXT}"
    assert "42" in outputs["sum"]
    assert outputs["temperature"] == 33
    assert outputs["image"]["mimeType"] == "image/png"
    assert Path(outputs["image"]["path"]).read_bytes().startswith(b"\x89PNG")
    assert outputs["link"].startswith("demo://")
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


def test_a_commit_is_made_and_shown_by_the_git_server(pflow, git_command, workflow, tmp_path, no_leftovers):
    repository = tmp_path / "repository"
    for key, value in {"user.name": "A", "user.email": "a@example.com"}.items():
        subprocess.run(["git", "-C", str(repository), "config", key, value], check=True)
    (repository / "file.txt").write_text("one\n")
    assert _add(pflow, "git", git_command)["tools_registered"] == 12
    place = str(repository)
    path = workflow(
        ("add", "mcp-git-git-add", {"repo_path": place, "files": ["file.txt"]}),
        ("commit", "mcp-git-git-commit", {"repo_path": place, "message": "${subject}"}),
        ("log", "mcp-git-git-log", {"repo_path": place, "max_count": 1}),
        inputs={"subject": {"type": "string"}},
        outputs={"log": "${log.result}"},
    )
    ran = pflow("run", path, "subject=Erste Änderung", "--json")
    assert ran.exit_code == 0, ran.stderr
    assert "Erste Änderung" in ran.envelope["data"]["outputs"]["log"]


def test_the_reference_server_runs_over_stdio(pflow, everything_command, workflow, no_leftovers):
    assert _add(pflow, "everything", everything_command)["tools_registered"] == 13
    path = workflow(
        ("image", "mcp-everything-get-tiny-image", {}),
        ("blob", "mcp-everything-get-resource-reference", {"resourceType": "Blob", "resourceId": 1}),
        ("long", "mcp-everything-trigger-long-running-operation", {"duration": 1, "steps": 2}),
        outputs={
            "image": "${image.result[1].size}",
            "blob": "${blob.result[1].sha256}",
            "long": "${long.result}",
        },
    )
    ran = pflow("run", path, "--json")
    assert ran.exit_code == 0, ran.stderr
    outputs = ran.envelope["data"]["outputs"]
    assert outputs["image"] == 4033
    assert len(outputs["blob"]) == 64
    assert "completed" in outputs["long"]
