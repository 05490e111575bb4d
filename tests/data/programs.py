"""Programs that tests start: pflow, servers that are scripts in Python, and plugins on their path."""

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pflow_mcp_plugin.exchange import Launch
from pflow_mcp_plugin.types import Server


def script_server(script: object, *arguments: object, **options: Any) -> dict[str, Any]:
    """Return the table of a server that is a script in Python and speaks the handshake."""
    words = [str(script), *map(str, arguments)]
    return {"command": sys.executable, "args": words, "protocol": "handshake", **options}


def script_launch(
    script: str, *arguments: str, name: str = "bad", secrets: Sequence[str] = (), **options: Any
) -> Launch:
    """Return the launch of a server that is a text in Python."""
    server = Server(name=name, command=sys.executable, args=("-c", script, *arguments), **options)
    return Launch(server=server, secrets=tuple(secrets))


def importing(folder: object) -> dict[str, str]:
    """Return the environment with which a program imports from a folder too, before all others."""
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))}


def until(reached: Callable[[], Any], seconds: float = 30) -> Any:
    """Wait until something is true, and return it; fail if it is not in this time."""
    deadline = time.monotonic() + seconds
    while not (found := reached()):
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.01)
    return found


def executable(path: Path, text: str = "#!/bin/sh\n") -> Path:
    """Write a program to a file, in a folder that may be missing, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def put_plugin(site: Path, name: str, source: str) -> None:
    """Put a plugin into a folder on the path: a module, and a distribution that announces it."""
    information = site / f"{name}-1.0.dist-info"
    information.mkdir(parents=True)
    (site / f"{name}_plugin.py").write_text(source, encoding="utf-8")
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n\nText")
    (information / "entry_points.txt").write_text(f"[pflow]\n{name} = {name}_plugin\n")
