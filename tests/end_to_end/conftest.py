"""Servers and workflows for whole-program tests."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

SCRIPTED = Path(__file__).with_name("scripted_tools.py")


def tools(*names: str, schema: Mapping[str, Any] | None = None) -> str:
    """Return the `TOOLS` of the scripted server."""
    return json.dumps([{"name": name, "inputSchema": schema or {"type": "object"}} for name in names])


@pytest.fixture
def scripted(pflow) -> Callable[..., None]:
    """Add the scripted server, under the name `odd` or another, with the tools and variables given."""

    def add(
        *names: str,
        server: str = "odd",
        sync: bool = True,
        schema: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        env = {"TOOLS": tools(*names, schema=schema), **options.pop("env", {})}
        table = {
            "command": sys.executable,
            "args": [str(SCRIPTED)],
            "env": env,
            "protocol": "handshake",
            **options,
        }
        assert pflow("mcp", "add", json.dumps({server: table})).exit_code == 0
        if sync:
            synced = pflow("mcp", "sync", server)
            assert synced.exit_code == 0, synced.stderr

    return add


@pytest.fixture
def typed(pflow, typed_command) -> None:
    """The tests' own server, added and synced."""
    assert pflow("mcp", "add", "typed", "--", *typed_command).exit_code == 0
    assert pflow("mcp", "sync", "typed").exit_code == 0


@pytest.fixture
def workflow(tmp_path) -> Callable[..., Path]:
    """Write a workflow file: `workflow(node, node, outputs={...})`; a node is `(id, type, params)`."""

    def write(*nodes: tuple[str, str, Mapping[str, Any]], **more: Any) -> Path:
        document = {
            "nodes": [{"id": id_, "type": type_, "params": params} for id_, type_, params in nodes],
            **more,
        }
        path = tmp_path / "wf.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        return path

    return write
