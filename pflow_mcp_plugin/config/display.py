"""A server for display: its secrets are masked."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence

from pflow_mcp_plugin import secret_detection
from pflow_mcp_plugin.config import auth
from pflow_mcp_plugin.config.token_shapes import tokens
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.contract.printable_text import one_line
from pflow_mcp_plugin.redaction import MASK, mask
from pflow_mcp_plugin.types import Server

_USER_INFO = re.compile(r"(?<=://)[^/?#]*@")
_DEFAULT = re.compile(r"\$\{(?P<name>\w+):-(?P<default>[^{}]+)\}")


def command_line(server: Server) -> str:
    """Return a server's shell command for display, an empty string if it has none.

    Possible secrets in its arguments are masked.
    """
    return shlex.join([server.command, *arguments(server.args)]) if server.command else ""


def target(server: Server) -> str:
    """Return a server's URL, path or command for display in one line, its secrets masked."""
    return one_line(url(server.url) or server.path or command_line(server))


def url(value: str, hide: Callable[[str], str] = mask) -> str:
    """Return a URL with its secrets masked: user info, query parameters such as `?api_key=`, and tokens.

    Args:
        value: The URL.
        hide: Returns what to show in place of a secret.
    """
    value = _DEFAULT.sub(lambda found: _without_default(found, hide), value)
    value = _USER_INFO.sub(lambda found: hide(found[0][:-1]) + "@", value)
    # From the end, so that the earlier positions stay valid.
    for start, end in reversed(list(secret_detection.in_queries(value))):
        value = value[:start] + hide(value[start:end]) + value[end:]
    for token in reversed(tokens(value)):
        value = value[: token.start] + hide(value[token.start : token.end]) + value[token.end :]
    return value


def _without_default(reference: re.Match[str], hide: Callable[[str], str]) -> str:
    """Return a reference such as `${API_KEY:-abc}` without its default, if its name is that of a secret."""
    if not secret_detection.is_secret(reference["name"]):
        return reference[0]
    return f"${{{reference['name']}:-{hide(reference['default'])}}}"


def arguments(args: Sequence[str], hide: Callable[[str], str] = mask) -> list[str]:
    """Return a command's arguments for display, possible secrets masked; `hide` is as for `url`."""
    shown = list(args)
    for index, start in secret_detection.in_arguments(args):
        shown[index] = args[index][:start] + hide(args[index][start:])
    return [url(argument, hide) for argument in shown]


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
