"""What identifies the launch of a server: the program that is run, or the place that is connected to.

Approvals of tools hold for a launch. It consists of what the config says about where the tools come from:
transport, command with its arguments (which name the version of a package), working folder, path and
URL. Values of variables, headers and limits are no part of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.types import Server

_DIGEST = re.compile(r"secret:[0-9a-f]{64}")
"""A secret in an identity. Not `sha256:`, which names a version in arguments such as `image@sha256:...`."""
_USER_INFO = re.compile(r"(?<=://)[^/?#]*@")


def launch_identity(server: Server) -> JSONObject:
    """Return the identity of a server's launch as JSON.

    References such as `${TOKEN}` stay references, and a secret that is written out becomes its hash.

    Args:
        server: The server as configured, its references not expanded.
    """
    return _identity(server.transport, server.command, server.args, server.cwd, server.path, server.url)


def is_launch_of(launch: JSONObject, server: Server) -> bool:
    """Whether this is the identity of a server's launch."""
    # Without secrets in it, the identity is what the config says; this look-up needs to import nothing more.
    written = _written(server.transport, server.command, server.args, server.cwd, server.path, server.url)
    return launch == written or launch == launch_identity(server)


def shown(launch: Mapping[str, Any]) -> str:
    """Return the identity of a launch for display in one line: the full command line, path or URL."""
    import shlex

    from pflow_mcp_plugin.contract.printable_text import one_line
    from pflow_mcp_plugin.redaction import MASK

    words = [launch.get("command", ""), *launch.get("args", ())]
    parts = [
        launch.get("url", ""),
        launch.get("path", ""),
        shlex.join(map(str, words)) if words[0] else "",
    ]
    line = _DIGEST.sub(MASK, " started by ".join(str(part) for part in parts if part))
    folder = f" (in {launch['cwd']})" if launch.get("cwd") else ""
    return one_line(line + folder)


def difference(old: JSONObject, new: JSONObject) -> tuple[str, str]:
    """Return two launches for display, in words that differ."""
    before, after = shown(old), shown(new)
    if before == after:
        kinds = (str(old.get("transport", "")), str(new.get("transport", "")))
        notes = kinds if kinds[0] != kinds[1] else ("with another secret", "with a secret that changed")
        before, after = (f"{line} ({note})" for line, note in zip((before, after), notes, strict=True))
    return before, after


@lru_cache(maxsize=64)
def _identity(
    transport: str, command: str, args: Sequence[str], cwd: str | None, path: str, url: str
) -> JSONObject:
    from pflow_mcp_plugin.config import display

    address = display.url(_USER_INFO.sub("", url), _hidden)
    return _written(transport, command, display.arguments(args, _hidden), cwd, path, address)


def _written(
    transport: str, command: str, args: Sequence[str], cwd: str | None, path: str, url: str
) -> JSONObject:
    found: dict[str, object] = {
        "transport": transport,
        "command": command,
        "args": [*args],
        "cwd": cwd,
        "path": path,
        "url": url,
    }
    return cast("JSONObject", {key: value for key, value in found.items() if value})


def _hidden(secret: str) -> str:
    """Return the hash of a secret, unless it consists of references only."""
    from hashlib import sha256  # few configs contain secrets

    from pflow_mcp_plugin.redaction import mask

    if mask(secret) == secret:
        return secret

    return "secret:" + sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
