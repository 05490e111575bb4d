"""Prints a server with its secrets masked, and what is not visible escaped."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from pflow_mcp_plugin import secret_detection
from pflow_mcp_plugin.config import auth
from pflow_mcp_plugin.config.token_shapes import tokens
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.redaction import MASK, mask
from pflow_mcp_plugin.types import Server

_USER_INFO = re.compile(r"(?<=://)[^/?#]*@")


def command_line(server: Server) -> str:
    """Return a server's shell command for display, an empty string if it has none.

    Possible secrets in its arguments are masked.
    """
    return shlex.join([server.command, *arguments(server.args)]) if server.command else ""


def target(server: Server) -> str:
    """Return a server's URL, path or command for display in one line, its secrets masked."""
    return url(server.url) or server.path or command_line(server)


def visible(text: str) -> str:
    """Return a text for display in which every character that is not printable is escaped."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def url(value: str) -> str:
    """Return a URL with its secrets masked: user info, query parameters such as `?api_key=`, and tokens."""
    value = _USER_INFO.sub(lambda found: mask(found[0][:-1]) + "@", value)
    # From the end, so that the earlier positions stay valid.
    for start, end in reversed(list(secret_detection.in_queries(value))):
        value = value[:start] + mask(value[start:end]) + value[end:]
    return _without_tokens(value)


def _without_tokens(text: str) -> str:
    """Return a text with everything masked that has the shape of a token."""
    for token in reversed(tokens(text)):
        text = text[: token.start] + MASK + text[token.end :]
    return text


def arguments(args: Sequence[str]) -> list[str]:
    """Return a command's arguments for display, possible secrets masked."""
    shown = list(args)
    for index, start in secret_detection.in_arguments(args):
        shown[index] = args[index][:start] + mask(args[index][start:])
    return [url(argument) for argument in shown]


def shown(server: Server) -> dict[str, JSON]:
    """Return a server's connection fields for display as JSON, possible secrets masked."""
    data: dict[str, JSON] = {"name": server.name, "transport": server.transport}
    if server.command:
        data |= {"command": server.command, "args": arguments(server.args), "runs": command_line(server)}
    data |= {key: getattr(server, key) for key in ("cwd", "path") if getattr(server, key)}
    if server.url:
        data["url"] = url(server.url)
    data |= {key: masked(getattr(server, key)) for key in ("env", "headers") if getattr(server, key)}
    data |= {key: getattr(server, key) for key in ("insecure", "ca_bundle") if getattr(server, key)}
    if server.tls_pins:
        data["tls_pins"] = server.tls_pins if isinstance(server.tls_pins, str) else [*server.tls_pins]
    if server.client_cert:
        data["client_cert"] = [*server.client_cert]
    if server.auth:
        data["auth"] = {**server.auth, **masked(_secret_part(server.auth))}
    return data


def masked(values: Mapping[str, str]) -> dict[str, str]:
    """Return a table for display with its values masked; values that are only references stay readable."""
    return {name: mask(value) for name, value in values.items()}


def _secret_part(table: JSONObject) -> dict[str, str]:
    """Return the possible secrets of an `auth` table: every field that is not known to be public."""
    public = set(auth.FIELDS) - set(auth.SECRET)
    return {
        key: value if isinstance(value, str) else MASK for key, value in table.items() if key not in public
    }
