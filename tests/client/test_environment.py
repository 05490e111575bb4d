"""What a server's process may see."""

from __future__ import annotations

from pflow_mcp_plugin.client.server_process import child_environment
from pflow_mcp_plugin.processes.reaper_process import MARKER


def test_only_what_a_program_needs_is_inherited(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:3128")
    monkeypatch.setenv("LC_TIME", "de_DE.UTF-8")
    monkeypatch.setenv("HOME", "() { echo; }")
    environment = child_environment({"TOKEN": "t", "PATH": "/only"}, "mark")
    assert "AWS_SECRET_ACCESS_KEY" not in environment
    assert "HOME" not in environment
    assert environment["https_proxy"] == "http://127.0.0.1:3128"
    assert environment["LC_TIME"] == "de_DE.UTF-8"
    assert environment["PATH"] == "/only"
    assert environment["TOKEN"] == "t"
    assert environment[MARKER] == "mark"
    assert environment["PYTHONUTF8"] == "1"
