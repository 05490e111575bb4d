"""The identity of a server's launch: the program that is run, or the address that is connected to.

Approvals of tools hold for a launch. It consists of what the config says about where the tools come from:
transport, command with its arguments (which name the version of a package), working folder, path and URL, and
the variables of its `env` that decide what code runs, such as PYTHONPATH. Where these contain references, the
values of the variables belong to it; of a variable with a secret only the reference counts. Other variables,
headers and limits are not part of it.

Identities of older versions lack `env` and `variables`. What an identity lacks is not compared, and is added
by the first sync or run, so nothing has to be approved anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.types import Server

_DIGEST = re.compile(r"secret:[0-9a-f]{64}")
"""A secret in an identity. Not `sha256:`, which names a version in arguments such as `image@sha256:...`."""
_USER_INFO = re.compile(r"(?<=://)[^/?#]*@")
_WRITTEN = ("transport", "command", "args", "cwd", "path", "url")
_ADDED = ("env", "variables")
"""The parts that identities of older versions lack."""


def launch_identity(server: Server, variables: Mapping[str, str] | None = None) -> JSONObject:
    """Return the identity of a server's launch as JSON.

    References such as `${TOKEN}` stay references, and a secret that is written out becomes its hash.
    `variables` are those that decide what is started; None if their values are not known here.
    """
    written = _identity(_values(server))
    added: dict[str, Any] = {"env": {}}
    if server.env and not server.is_remote:
        from pflow_mcp_plugin.config.display import decides_code

        own = sorted(server.env.items())
        added["env"] = {name: _kept(name, value) for name, value in own if decides_code(name)}
    if variables is not None:
        added["variables"] = {name: _kept(name, value) for name, value in sorted(variables.items())}
    return {**written, **added}


def is_launch_of(launch: JSONObject, server: Server, variables: Mapping[str, str] | None = None) -> bool:
    """Whether this is the identity of a server's launch; for `variables`, see `launch_identity`."""
    # Without secrets, the identity is what the config says; this look-up needs no further imports.
    written = _written(_values(server))
    if not server.env and variables is None and not launch.get("env") and _without_added(launch) == written:
        return True
    return same(launch, launch_identity(server, variables))


def same(one: JSONObject, other: JSONObject) -> bool:
    """Whether two launch identities are of the same launch, as far as both are complete."""
    if any(one[key] != other[key] for key in _ADDED if key in one and key in other):
        return False
    written = _without_added(one), _without_added(other)
    # Older versions also hashed what only stands where a secret may be.
    return written[0] == written[1] or _hashed(written[0]) == _hashed(written[1])


def completed(launch: JSONObject, others: Iterable[JSONObject | None]) -> JSONObject:
    """Return a launch identity with the parts that it lacks, from the first other of the same launch."""
    for other in others:
        if other and same(launch, other):
            launch = {**launch, **{key: other[key] for key in _ADDED if key in other and key not in launch}}
    return launch


def is_complete(launch: JSONObject) -> bool:
    """Whether a launch identity has all parts that this version compares."""
    return all(key in launch for key in _ADDED)


def changed_variables(old: JSONObject, new: JSONObject) -> list[str]:
    """Return the variables that decide what is started and differ between two launch identities."""
    tables = [cast("Mapping[str, str]", launch.get("variables", {})) for launch in (old, new)]
    names = sorted({*tables[0], *tables[1]})
    return [name for name in names if tables[0].get(name) != tables[1].get(name)]


def shown(launch: Mapping[str, Any]) -> str:
    """Return a launch's identity in one line for people: the full command line, path or URL."""
    import shlex

    from pflow_mcp_plugin.secret_detection import MASK
    from pflow_mcp_plugin.terminal.looks import one_line

    words = [launch.get("command", ""), *launch.get("args", ())]
    parts = [
        launch.get("url", ""),
        launch.get("path", ""),
        shlex.join(map(str, words)) if words[0] else "",
    ]
    line = _DIGEST.sub(MASK, " started by ".join(str(part) for part in parts if part))
    line += f" (in {launch['cwd']})" if launch.get("cwd") else ""
    for word, key in (("with", "env"), ("where", "variables")):
        values = (
            f"{name}={_DIGEST.sub(MASK, str(value))}" for name, value in (launch.get(key) or {}).items()
        )
        line += f", {word} {', '.join(values)}" if launch.get(key) else ""
    return one_line(line)


def difference(old: JSONObject, new: JSONObject) -> tuple[str, str]:
    """Return two launches of a server for display, in words that show how they differ."""
    before, after = shown(old), shown(new)
    if before == after:
        kinds = (str(old.get("transport", "")), str(new.get("transport", "")))
        notes = kinds if kinds[0] != kinds[1] else ("with another secret", "with a secret that changed")
        before, after = (f"{line} ({note})" for line, note in zip((before, after), notes, strict=True))
    return before, after


def _values(server: Server) -> tuple[Any, ...]:
    return tuple(getattr(server, key) for key in _WRITTEN)


@lru_cache(maxsize=64)
def _identity(values: tuple[Any, ...]) -> JSONObject:
    from pflow_mcp_plugin.config import display

    transport, command, args, cwd, path, url = values
    args = display.arguments(args, _hidden, command=command)
    return _written((transport, command, args, cwd, path, display.url(_USER_INFO.sub("", url), _hidden)))


def _hashed(written: JSONObject) -> JSONObject:
    from pflow_mcp_plugin.config import display

    words = [*map(str, cast("Sequence[str]", written.get("args", ())))]
    hashed = display.arguments(words, _hidden, widely=True)
    args = [old if _DIGEST.fullmatch(old) else new for old, new in zip(words, hashed, strict=True)]
    return {**written, "args": args, "url": display.url(str(written.get("url", "")), _hidden, widely=True)}


def _without_added(launch: JSONObject) -> JSONObject:
    return {key: value for key, value in launch.items() if key not in _ADDED}


def _kept(name: str, value: str) -> str:
    from pflow_mcp_plugin import secret_detection
    from pflow_mcp_plugin.config import display

    if secret_detection.is_secret(name) and not display.is_secret_only(value):
        return value
    if secret_detection.is_secret(name) or display.is_random(value):
        return _hidden(value)
    return display.url(value, _hidden, widely=True)


def _written(values: tuple[Any, ...]) -> JSONObject:
    found = zip(_WRITTEN, values, strict=True)
    return {key: [*value] if key == "args" else value for key, value in found if value}


def _hidden(secret: str) -> str:
    """Return the hash that stands for a secret in a launch identity; references stay as they are."""
    from hashlib import sha256  # few configs contain secrets

    from pflow_mcp_plugin.secret_detection import mask

    if mask(secret) == secret or _DIGEST.fullmatch(secret):
        return secret

    return "secret:" + sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
