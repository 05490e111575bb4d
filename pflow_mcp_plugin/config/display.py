"""Prints a server with its secrets masked."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from pflow_mcp_plugin import secret_detection
from pflow_mcp_plugin.config import auth
from pflow_mcp_plugin.redaction import MASK, mask
from pflow_mcp_plugin.types import Server

_USER_INFO = re.compile(r"(?<=://)[^/?#]*@")


def command_line(server: Server) -> str:
    """Return the shell command that starts a server, an empty string if it has no command.

    Possible secrets in its arguments are masked.
    """
    return shlex.join([server.command, *arguments(server.args)]) if server.command else ""


def target(server: Server) -> str:
    """Return the URL, path or command of a server in one line."""
    return url(server.url) or server.path or command_line(server)


def url(value: str) -> str:
    """Return a URL with its secrets masked: user info and query parameters such as `?api_key=`."""
    value = _USER_INFO.sub(lambda found: mask(found[0][:-1]) + "@", value)
    for start, end in reversed(list(secret_detection.in_queries(value))):
        value = value[:start] + mask(value[start:end]) + value[end:]
    return value


def arguments(args: Sequence[str]) -> list[str]:
    """Return the arguments of a command with possible secrets masked."""
    shown = list(args)
    for index, start in secret_detection.in_arguments(args):
        shown[index] = args[index][:start] + mask(args[index][start:])
    return [url(argument) for argument in shown]


def shown(server: Server) -> dict[str, Any]:
    """Return the connection fields of a server as JSON values, with possible secrets masked."""
    data: dict[str, Any] = {"name": server.name, "transport": server.transport}
    if server.command:
        data |= {"command": server.command, "args": arguments(server.args), "runs": command_line(server)}
    data |= {key: getattr(server, key) for key in ("cwd", "path") if getattr(server, key)}
    if server.url:
        data["url"] = url(server.url)
    data |= {key: masked(getattr(server, key)) for key in ("env", "headers") if getattr(server, key)}
    if server.auth:
        data["auth"] = {**server.auth, **masked(_secret_part(server.auth))}
    return data


def masked(values: Mapping[str, str]) -> dict[str, str]:
    """Return names with their values masked; values that are only references stay readable."""
    return {name: mask(value) for name, value in values.items()}


def _secret_part(table: Mapping[str, Any]) -> dict[str, str]:
    """Return the possible secrets of an `auth` table: every field that is not known to be public."""
    public = set(auth.FIELDS) - set(auth.SECRET)
    return {
        key: value if isinstance(value, str) else MASK for key, value in table.items() if key not in public
    }
