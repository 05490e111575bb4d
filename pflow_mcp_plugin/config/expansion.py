"""Replaces references by values when a server is started or connected to.

In the `env` of a server that is started, a variable that is not set becomes the empty string and
is reported. Anywhere else it is an error before anything starts: an empty token is never sent.
Expanded values are never expanded again. How many servers are started at once is decided here too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from string import punctuation
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote

import attrs

from pflow_mcp_plugin import secret_detection, variable_references
from pflow_mcp_plugin.config import auth, display, field_checks
from pflow_mcp_plugin.config.display import decides_code
from pflow_mcp_plugin.config.field_checks import has_host_and_port, refuse_errors
from pflow_mcp_plugin.config.server_schema import server_path
from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.contract.problems import fault
from pflow_mcp_plugin.exchange import Launch, setting
from pflow_mcp_plugin.secret_detection import tokens

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract import Problem, Settings
    from pflow_mcp_plugin.types import Server
    from pflow_mcp_plugin.variable_references import VariableReference

STARTS_SETTING = "PFLOW_MCP_STARTS"
"""The environment variable, or else the setting, with the most servers that are started at once."""


def starts_at_once(lookup: Callable[[str], str | None]) -> int:
    """Expand the variable for how many servers are started at once; if it is not set, the cores decide."""
    given = lookup(STARTS_SETTING)
    if not given:
        # A server that starts mostly waits, for the disk or the network, so a core has time for several.
        return 4 * (os.cpu_count() or 1)
    if not given.isdecimal() or int(given) < 1:
        message = f"{STARTS_SETTING} must be a whole number from 1, not {given!r}"
        step = f"Run: pflow settings set {STARTS_SETTING} 8"
        if STARTS_SETTING in os.environ:
            step = f"Unset the environment variable, or set {STARTS_SETTING}=8"
        raise PflowError(message, suggestions=(step,), kind="config")
    return int(given)


Lookup = Callable[[str], str | None]
"""Returns a variable's value for the expansion of references, None when it is not set."""

_SHORTEST_GUESS = 8
"""Characters of an expanded argument from which it counts as a secret; `--auth basic` is not one."""
_PUBLIC = frozenset(
    {
        *("HOME", "USER", "LOGNAME", "USERNAME", "USERPROFILE", "HOSTNAME", "SHELL", "TERM"),
        *("PATH", "PWD", "OLDPWD", "TMPDIR", "TEMP", "TMP", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ"),
    }
)
"""Variables of every session, not secret when expanded: redacting `$HOME` would hide every path."""
_OF_FOLDER_OR_TERMINAL = frozenset({"PWD", "OLDPWD", "TERM", "TZ", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE"})
"""Variables that change during work and choose no program; the folder is that of the run anyway."""
_PLAIN = re.compile(r"[A-Za-z0-9_.+/=~:@%-]*")
"""A secret without characters that are special to a shell."""
_SENT_EMPTY_NEVER = ("headers", "auth")
_SHOWN = tuple(f"auth.{key}" for key in auth.PUBLIC)


@attrs.frozen
class VariableLookup:
    """Looks up variables for their expansion: in the environment, then in the user's settings, if any."""

    settings: Settings | None = None

    def __call__(self, name: str) -> str | None:
        value = os.environ.get(name)
        return value if value is not None or self.settings is None else self.settings.get(name)

    def is_secret(self, name: str) -> bool:
        if name in os.environ or self.settings is None:
            return False
        # Otherwise it is in a keyring or behind a command.
        return self.settings.names().get(name, "file") != "file"


def expand(
    server: Server,
    lookup: Lookup,
    fingerprint: str = "",
    era: Literal["modern", "handshake"] | None = None,
) -> Launch:
    """Expand every reference of a server, so that it is ready to be started or connected to.

    The error names every variable that is needed and not set or empty, and every value that cannot be used.
    `auth` given by `token_env` becomes a bearer token.
    """
    expansion = _Expansion(server, lookup)
    env = expansion.env()
    if server.transport in ("http", "sse"):
        # Nothing is started, so an unset variable matters only where a header or the URL uses it.
        expansion.unset.clear()
        expansion.empty.clear()
    expanded = attrs.evolve(server, env=env, **expansion.reach())
    refuse_errors(f"Server {server.name}", expansion.problems, server=server.name)
    secrets = {
        *expansion.values,
        *_named_secrets(server, expanded),
        *_shown_secrets(server, expanded),
        *_proxy_secrets(),
    }
    if expanded.auth.get("type") == "basic":
        from base64 import b64encode

        # As they are sent.
        pair = f"{expanded.auth['username']}:{expanded.auth['password']}"
        secrets.add(b64encode(pair.encode("utf-8", "surrogatepass")).decode())
    for value in tuple(secrets):
        secrets |= {value, *secret_detection.within(value, is_secret_whole=True)}
    return Launch(
        server=expanded,
        fingerprint=fingerprint,
        secrets=tuple(sorted(value for value in secrets if len(value) >= 4)),
        unset=tuple(expansion.unset),
        empty=tuple(expansion.empty),
        era=era,
        variables=expansion.deciding(),
    )


def launch_variables(server: Server, lookup: Lookup) -> dict[str, str]:
    """Expand the references that decide what is started or reached; those without a value are empty."""
    expansion = _Expansion(server, lookup)
    if server.transport in ("http", "sse"):
        expansion.env()
    return expansion.deciding()


def launch_texts(server: Server) -> Iterator[tuple[str, str]]:
    """Yield, before expansion, each field and text that decides what is started or reached."""
    yield "command", server.command
    yield from ((f"args[{index}]", argument) for index, argument in enumerate(server.args))
    yield from (("cwd", server.cwd or ""), ("path", server.path), ("url", server.url))
    if server.transport not in ("http", "sse"):
        yield from ((f"env.{name}", value) for name, value in server.env.items() if decides_code(name))


def launch_names(server: Server) -> set[str]:
    """Return the variables whose expansion in a config decides what it starts, reaches and trusts.

    These are what the launch refers to, also through the server's own `env`, and the certificates, pins and
    authorization server that decide who gets its secrets.
    """
    believed = (server.ca_bundle, *server.client_cert, server.tls_pins, *map(server.auth.get, auth.PUBLIC))
    texts = [text for _, text in launch_texts(server)] + [each for each in believed if isinstance(each, str)]
    names = {ref.name for text in texts for ref in variable_references.references(text)}
    own = names & server.env.keys() if server.transport in ("http", "sse") else ()
    return names.union(
        *({ref.name for ref in variable_references.references(server.env[name])} for name in own)
    )


class _Expansion:
    """The expansion of one server's references; collects the variables used and the problems found."""

    def __init__(self, server: Server, lookup: Lookup) -> None:
        self.server = server
        self.outer = lookup
        self.own: Mapping[str, str] = {}
        """An http server's own `env`, which is used for expansion only."""
        self.unset: dict[str, None] = {}
        self.empty: dict[str, None] = {}
        self.values: set[str] = set()
        self.problems: list[Problem] = []
        self.looked_up: dict[str, str | None] = {}
        """Each variable is looked up once, so that what is started is what was approved."""

    def env(self) -> dict[str, str]:
        """Return the expanded `env`; that of an http server is used to expand its other fields."""
        env = {key: self.lenient(value) for key, value in self.server.env.items()}
        if self.server.transport in ("http", "sse"):
            # An entry that refers to a variable without a value has none itself.
            self.own = {
                key: env[key]
                for key, text in self.server.env.items()
                if all(self._value(ref) is not None for ref in variable_references.references(text))
            }
        return env

    def deciding(self) -> dict[str, str]:
        # Of a variable with a secret only the reference counts, unless its value may be more than a secret.
        found: dict[str, str] = {}
        secret = {f"args[{index}]": start for index, start in secret_detection.in_arguments(self.server.args)}
        started = display.startable([self.server.command, *self.server.args])
        in_query = [*secret_detection.in_queries(self.server.url)]
        for field, text in launch_texts(self.server):
            may_hide = field == "url" or (field.startswith("args[") and int(field[5:-1]) not in started)
            for start, ref in variable_references.placed(text):
                if ref.name in _OF_FOLDER_OR_TERMINAL or self._is_kept_apart(ref.name):
                    continue  # before its value is asked for: a keyring may be locked, a command may be slow
                value = self._value(ref) or ""
                # What decides the host of a URL is not a secret, whatever its name.
                path = re.search(r"(?<!:)(?<!/)[/?#]", text)
                is_host = field == "url" and start < (path.start() if path else len(text))
                named = secret_detection.is_secret(ref.name) and not is_host
                placed = secret.get(field, len(text)) <= start or (
                    field == "url" and any(begin <= start < end for begin, end in in_query)
                )
                if not (may_hide and (named or placed) and _PLAIN.fullmatch(value)):
                    found[ref.name] = value
        return found

    def lenient(self, text: str) -> str:
        """Expand the references in an `env` value; unset variables become empty."""

        def value(ref: VariableReference) -> str:
            found = self._value(ref)
            if not found and ref.default is None:
                (self.unset if found is None else self.empty)[ref.name] = None
            return self._noted(ref, found or "", secret=True)

        return variable_references.substitute(text, value)

    def strict(self, field: str, text: str) -> str:
        """Expand the references in a field other than `env`; unset variables are problems."""
        guarded = field.partition(".")[0] in _SENT_EMPTY_NEVER

        def value(ref: VariableReference) -> str:
            found = self._value(ref)
            if found is None or (guarded and not found and ref.default is None):
                # An `env` entry of the server may refer to another variable, which the user has to set.
                behind = self.server.env.get(ref.name, "") if self.server.url else ""
                unset = (it.name for it in variable_references.references(behind) if not self.outer(it.name))
                name = next(unset, ref.name)
                wrong = f"variable {name} is {'not set' if found is None else 'empty'}"
                self._complain(field, wrong, f"Set it: export {name}=..., or keep it: {setting(name)}")
            hidden = guarded and field not in _SHOWN
            secret = hidden or secret_detection.is_secret(ref.name) or self._is_kept_apart(ref.name)
            return self._noted(ref, found or "", secret=secret)

        before = len(self.problems)
        expanded = variable_references.substitute(text, value)
        if len(self.problems) == before:
            self._check_expanded(field, expanded)
        return expanded

    def reach(self) -> dict[str, Any]:
        server = self.server
        credentials = dict(server.auth)
        for key in (*auth.SECRET, *auth.PUBLIC):
            if isinstance(text := server.auth.get(key), str):
                credentials[key] = self._credential(f"auth.{key}", text)
        if "token_env" in server.auth:
            reference = f"${{{server.auth['token_env']}}}"
            token = self._credential("auth.token_env", reference)
            credentials |= {"type": "bearer", "token": token}
        reached: dict[str, Any] = {
            key: self.strict(key, getattr(server, key)) for key in ("command", "path", "url")
        }
        reached["args"] = tuple(self.strict(f"args[{at}]", arg) for at, arg in enumerate(server.args))
        reached["cwd"] = None if server.cwd is None else self.strict("cwd", server.cwd)
        reached["headers"] = {
            name: self.strict(field_checks.join("headers", name), value)
            for name, value in server.headers.items()
        }
        if server.transport in ("http", "sse"):
            pins = server.tls_pins
            reached["ca_bundle"] = self.strict("ca_bundle", server.ca_bundle)
            reached["client_cert"] = tuple(self.strict("client_cert", file) for file in server.client_cert)
            reached["tls_pins"] = self.strict("tls_pins", pins) if isinstance(pins, str) else pins
        return {**reached, "auth": credentials}

    def _credential(self, field: str, text: str) -> str:
        before = len(self.problems)
        value = self.strict(field, text)
        if not value and field != "auth.password" and len(self.problems) == before:
            self._complain(field, "Is empty", "Give its variable a value")
        return value

    def _value(self, ref: VariableReference) -> str | None:
        value = self.own.get(ref.name)
        if value is None:
            if ref.name not in self.looked_up:
                self.looked_up[ref.name] = self.outer(ref.name)
            value = self.looked_up[ref.name]
        return value if ref.default is None else value or ref.default  # as `:-` in a shell: also if empty

    def _is_kept_apart(self, name: str) -> bool:
        return isinstance(self.outer, VariableLookup) and self.outer.is_secret(name)

    def _noted(self, ref: VariableReference, value: str, *, secret: bool) -> str:
        is_named = secret_detection.is_secret(ref.name)
        if ref.default and is_named:
            self.values.add(ref.default)  # a secret even if the variable is set
        if secret and ref.name not in _PUBLIC and (value != ref.default or is_named):
            self.values.add(value)
        return value

    def _complain(self, field: str, wrong: str, step: str) -> None:
        place = f"{server_path(self.server.name)}.{field}"
        self.problems.append(fault(place, wrong, step))

    def _check_expanded(self, field: str, value: str) -> None:
        not_empty = ("command", "path", "url", "ca_bundle", "client_cert", "tls_pins")
        if field in not_empty and not value and getattr(self.server, field):
            self._complain(field, "Is empty once expanded", "Give its variables a value")
        is_address = field in ("url", "auth.issuer", "auth.client_metadata_url")
        if is_address and value and not (field_checks.is_url(value) and has_host_and_port(value)):
            self._complain(field, "Is not an http or https address once expanded", "Correct its variables")
        if field.partition(".")[0] in _SENT_EMPTY_NEVER and field_checks.has_control(value):
            wrong = "Holds a line break or control character once expanded"
            self._complain(field, wrong, "Correct its variables")
        in_header = field.startswith("headers.") or field == "auth.token"
        if in_header and not (value.isascii() and value == value.strip(" ")):
            wrong = "Holds a character that is not ASCII, or a space at an end, which no header may"
            self._complain(field, wrong, "Correct it, or its variables")
        if "\x00" in value:
            self._complain(field, "Holds a NUL character once expanded", "Correct its variables")


def _named_secrets(server: Server, expanded: Server) -> Iterator[str]:
    """Yield the expanded values with names of secrets, and the defaults and text beside their references."""
    named = [
        (text, values[name])
        for table, values in ((server.env, expanded.env), (server.headers, expanded.headers))
        for name, text in table.items()
        if secret_detection.is_secret(name)
    ]
    named += [
        (text, str(expanded.auth[key]))
        for key, text in server.auth.items()
        if isinstance(text, str) and key in auth.SECRET and key != "username"
    ]
    for written, value in named:
        found = variable_references.references(written)
        if not found:
            yield written
        beside = variable_references.substitute(written, lambda _: "").strip()
        if beside or not {ref.name for ref in found} <= _PUBLIC:
            yield from (value, value.rpartition(" ")[2])  # also without a scheme, as in `Bearer SECRET`
        yield from _literals(written)


def _literals(written: str) -> Iterator[str]:
    """Yield what an expanded secret has from the config itself: text beside references, their defaults."""
    found = variable_references.references(written)
    yield from (ref.default for ref in found if ref.default)
    for piece in variable_references.substitute(written, lambda _: "\0").split("\0") if found else ():
        word = piece.rpartition(" ")[2]
        yield from (each for each in (word, word.strip(punctuation)) if len(each) >= _SHORTEST_GUESS)


def _proxy_secrets() -> Iterator[str]:
    for name, value in os.environ.items():
        if name.upper().endswith("_PROXY") and name.upper() != "NO_PROXY":
            user_info = value.partition("://")[2] or value
            user, _, password = user_info.rpartition("@")[0].partition(":")
            yield from (user, password, unquote(user), unquote(password))


def _shown_secrets(server: Server, expanded: Server) -> Iterator[str]:
    # What `ps` and logs would show: in arguments, and in URLs anywhere.
    for index, start in secret_detection.in_arguments(server.args):
        yield from _literals(server.args[index][start:])
    for written in (server.url, *server.args):
        yield from (each for part in secret_detection.in_urls(written) for each in _literals(part))
    for index, start in secret_detection.in_arguments(expanded.args):
        value = expanded.args[index][start:]
        if len(value) >= _SHORTEST_GUESS:
            yield from (value, value.rpartition(" ")[2])
    for text in (*expanded.args, *expanded.env.values(), *expanded.headers.values(), expanded.url):
        for part in secret_detection.in_urls(text):
            yield from (part, unquote(part))
        yield from secret_detection.within(text)
        yield from (text[token.start : token.end] for token in tokens(text))
