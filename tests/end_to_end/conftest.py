"""Servers and workflows for whole-program tests."""

import hashlib
import json
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from workflow_parts import step

SCRIPTED = Path(__file__).with_name("scripted_tools.py")


def tools(*names: str, schema: Mapping[str, Any] | None = None) -> str:
    """Return the `TOOLS` of the scripted server."""
    return json.dumps([{"name": name, "inputSchema": schema or {"type": "object"}} for name in names])


@pytest.fixture(scope="session")
def homes(tmp_path_factory) -> Path:
    """A folder of homes with one server each, as `configured` left them."""
    return tmp_path_factory.mktemp("homes")


@pytest.fixture
def configured(pflow, pflow_home, homes) -> Callable[..., None]:
    """Add a server and sync it; the next test that starts with the same one gets a copy of that home."""

    def configure(server: str, table: Mapping[str, Any], *, sync: bool = True) -> None:
        document = json.dumps({server: table})
        if any(pflow_home.iterdir()):
            _configure(pflow, server, document, sync=sync)
            return
        kept = homes / hashlib.sha256(f"{sync} {document}".encode()).hexdigest()
        if kept.exists():
            shutil.copytree(kept, pflow_home, dirs_exist_ok=True)
        else:
            _configure(pflow, server, document, sync=sync)
            shutil.copytree(pflow_home, kept)

    return configure


def _configure(pflow: Callable[..., Any], server: str, document: str, *, sync: bool) -> None:
    assert pflow("mcp", "add", "--replace", document).exit_code == 0
    if sync:
        synced = pflow("mcp", "sync", server)
        assert synced.exit_code == 0, synced.stderr


@pytest.fixture
def log(tmp_path) -> Path:
    """The file in which a server notes what it did."""
    return tmp_path / "log"


@pytest.fixture
def scripted(configured) -> Callable[..., None]:
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
        configured(server, table, sync=sync)

    return add


@pytest.fixture
def typed(configured, typed_command) -> None:
    """The tests' own server, added and synced."""
    program, *arguments = typed_command
    configured("typed", {"command": program, "args": arguments})


@pytest.fixture
def workflow(tmp_path) -> Callable[..., Path]:
    """Write a workflow file: `workflow(node, node, outputs={...})`, or `workflow(**document)`.

    A node is `(id, type, params)`, or whatever it has in a file.
    """

    def write(*nodes: tuple[str, str, Mapping[str, Any]] | dict[str, Any], **more: Any) -> Path:
        path = tmp_path / "wf.json"
        written = [node if isinstance(node, dict) else step(*node) for node in nodes]
        path.write_text(json.dumps({"nodes": written, **more}), encoding="utf-8")
        return path

    return write
