"""The classes for a preset, a ready-made server as its author describes it.

Authors import these classes from `pflow_mcp_plugin.types`. Wrong values are rejected at construction,
with a message that names the field.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Literal

import attrs

from pflow_mcp_plugin import secret_detection
from pflow_mcp_plugin.contract.validators import each, flag, is_a, items, one_of, text, valid_name
from pflow_mcp_plugin.naming import is_server_name
from pflow_mcp_plugin.variable_references import is_variable, malformed, references

_WEB = re.compile(r"https?://[^\s]+")
_HASH = re.compile(r"sha256:[0-9a-f]{64}")

_RECIPE = dict.fromkeys(("tool", "arguments", "happened", "result")).keys()
_NPM = (
    re.compile(r"(?:@[\w.-]+/)?[\w.-]+@\d+\.\d+\.\d+(?:[-+][\w.+-]+)?"),
    ("-p", "--package"),
    re.compile(r"-[cw]|--(?:call|workspace|registry|prefix|cache|userconfig|loglevel)"),
    "NAME@1.2.3",
)
_PYPI = (
    re.compile(r"[\w.-]+(?:\[[\w.,-]+\])?(?:@|==)\d+(?:\.\d+)*(?:[\w.+!-]*)"),
    ("--from", "--spec", "-w", "--with"),
    re.compile(
        r"-[pifcbP]|--(?:python|(?:default-|extra-)?index(?:-url|-strategy)?|find-links|(?:build-)?constraints"
        r"|overrides|env-file|cache-dir|config-file|directory|project|prerelease|resolution|exclude-newer"
        r"|with-(?:editable|requirements)|pip-args)"
    ),
    "NAME==1.2.3",
)
_IMAGE = (
    re.compile(r"[\w./:-]+(?:@sha256:[0-9a-f]{64}|:(?!latest$)[\w][\w.-]*)"),
    (),
    # Most of docker's options take a value.
    re.compile(
        r"-[itdPq]*[acehlmpuvw]|--(?!(?:detach|init|interactive|no-healthcheck|oom-kill-disable|privileged"
        r"|publish-all|quiet|read-only|replace|rm|tty)$).+"
    ),
    "IMAGE:1.2.3",
)
_PACKAGES: Mapping[str, tuple[re.Pattern[str], tuple[str, ...], re.Pattern[str], str]] = {
    "npx": _NPM,
    "bunx": _NPM,
    "uvx": _PYPI,
    "pipx": _PYPI,
    "docker": _IMAGE,
    "podman": _IMAGE,
}
"""Programs that download what they start: the form of an exact version, the options that take a package
besides the first word, the other options that take the next word as their value, and an example."""


@attrs.frozen(kw_only=True)
class PresetInput:
    """An input of a preset, which its user gives a value; `${name}` stands for it in the launch.

    Attributes:
        name: A variable name, such as `folder` or `GITHUB_TOKEN`.
        description: What the user should give, in one line.
        required: Whether the server needs it. Without a value for an optional input, each argument,
            variable or header that refers to it is left out.
        secret: Whether it is a credential. The config then keeps the reference `${name}`, and the value
            comes from the environment or the settings. It may not be used in `command` and `args`, which
            other users of the machine can see.
        path: Whether it is a file or folder: `~` and relative paths are made absolute; the default is not.
        default: The value when none is given; a secret has none.
        choices: The allowed values; empty allows any.

    Raises:
        ValueError: A field is invalid; the message names it.
    """

    name: str = attrs.field(validator=valid_name)
    description: str = attrs.field(validator=valid_name)
    required: bool = attrs.field(default=True, validator=flag)
    secret: bool = attrs.field(default=False, validator=flag)
    path: bool = attrs.field(default=False, validator=flag)
    default: str = attrs.field(default="", validator=text)
    choices: tuple[str, ...] = attrs.field(default=(), converter=items, validator=each(str))

    def __attrs_post_init__(self) -> None:
        if not is_variable(self.name):
            raise _wrong(self, "name", f"must be letters, digits and _, got {self.name!r}")
        if self.secret and (self.default or self.choices or self.path):
            raise _wrong(self, "secret", f"{self.name} cannot have a default or choices, or be a path")
        if self.choices and self.default and self.default not in self.choices:
            raise _wrong(self, "default", f"{self.default!r} is not one of {', '.join(self.choices)}")

    def to_dict(self) -> dict[str, Any]:
        """Return this input in JSON form, as the author of its preset describes it."""
        return {**attrs.asdict(self), "choices": list(self.choices)}


@attrs.frozen(kw_only=True)
class ServerPreset:
    """A preset: a ready-made server that `pflow mcp add NAME` adds; `pflow_mcp_presets` offers it.

    Strings of the launch may contain `${input}` references to declared inputs and to nothing else.
    A package that a runner such as npx, uvx or docker downloads needs its exact version, so that everyone
    starts the same program.

    Attributes:
        name: What users type, and the server's name unless they choose another: `[a-z0-9-]+`.
        title: A name for people.
        description: What the server can do, in one line.
        homepage: Where to read more.
        transport: How the server is reached.
        command: The program of a stdio server.
        args: Its arguments.
        env: Its environment variables.
        url: The endpoint of an http or sse server.
        headers: HTTP headers for it.
        inputs: The values that the user gives.
        tools: Globs of the tools that become nodes; empty allows all.
        rename: Raw tool name to the name its node gets.
        idempotency_argument: Raw tool name to the argument that takes a key: a call with the same key is done
            once, however often it is sent.
        verify: Raw tool name to a recipe, with `tool`, `arguments`, `happened` and `result`: how to find out
            whether a call happened.
        startup_timeout: Seconds from start to the end of the handshake; None is the usual.
        list_timeout: Seconds for listing the tools; None is the usual.
        call_timeout: Seconds of silence in a call; None is the usual.
        call_timeout_max: Seconds for a whole call; None is the usual.
        manifest_hash: The manifest hash that a sync of this exact version shows, if the author knows it;
            a sync that shows another warns.

    Raises:
        ValueError: A field is invalid; the message names it.
    """

    name: str = attrs.field(validator=valid_name)
    title: str = attrs.field(validator=valid_name)
    description: str = attrs.field(validator=valid_name)
    homepage: str = attrs.field(default="", validator=text)
    transport: Literal["stdio", "http", "sse"] = attrs.field(
        default="stdio", validator=one_of("stdio", "http", "sse")
    )
    command: str = attrs.field(default="", validator=text)
    args: tuple[str, ...] = attrs.field(default=(), converter=items, validator=each(str))
    env: Mapping[str, str] = attrs.field(factory=dict, validator=is_a(Mapping))
    url: str = attrs.field(default="", validator=text)
    headers: Mapping[str, str] = attrs.field(factory=dict, validator=is_a(Mapping))
    inputs: tuple[PresetInput, ...] = attrs.field(default=(), converter=items, validator=each(PresetInput))
    tools: tuple[str, ...] = attrs.field(default=(), converter=items, validator=each(str))
    rename: Mapping[str, str] = attrs.field(factory=dict, validator=is_a(Mapping))
    idempotency_argument: Mapping[str, str] = attrs.field(factory=dict, validator=is_a(Mapping))
    verify: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict, validator=is_a(Mapping))
    startup_timeout: float | None = attrs.field(default=None)
    list_timeout: float | None = attrs.field(default=None)
    call_timeout: float | None = attrs.field(default=None)
    call_timeout_max: float | None = attrs.field(default=None)
    manifest_hash: str = attrs.field(default="", validator=text)

    def __attrs_post_init__(self) -> None:
        checks = _check_fields, _check_recipes, _check_reach, _check_references, _check_inputs, _check_secrets
        for check in checks:
            for field, reason in check(self):
                raise _wrong(self, field, f"{reason} (preset {self.name})")

    @property
    def packages(self) -> tuple[str, ...]:
        """The packages, with versions, that the runner in this preset downloads; empty without a runner."""
        runner = _program(self.command)
        return tuple(_packages(runner, self.args)) if runner in _PACKAGES else ()

    def launch_texts(self) -> Iterator[tuple[str, str]]:
        """Yield what a preset's author wrote to launch the server: strings with fields, such as `args[1]`."""
        yield "command", self.command
        yield "url", self.url
        yield from ((f"args[{index}]", value) for index, value in enumerate(self.args))
        yield from ((f"env.{name}", value) for name, value in self.env.items())
        yield from ((f"headers.{name}", value) for name, value in self.headers.items())


_Found = Iterator[tuple[str, str]]
"""Invalid fields, each with the reason."""


def _check_fields(preset: ServerPreset) -> _Found:
    if not is_server_name(preset.name):
        yield "name", f"must be a-z, 0-9 and hyphens, got {preset.name!r}"
    if preset.homepage and not _WEB.fullmatch(preset.homepage):
        yield "homepage", "must begin with http:// or https://"
    if preset.manifest_hash and not _HASH.fullmatch(preset.manifest_hash):
        yield "manifest_hash", "must be sha256: and 64 hexadecimal digits"
    for field in ("env", "headers", "rename", "idempotency_argument"):
        for name, value in getattr(preset, field).items():
            if not (isinstance(name, str) and name and isinstance(value, str)):
                yield field, f"must map names to strings, got {name!r}: {value!r}"
            elif field == "env" and "=" in name:
                yield field, f"{name!r} is not the name of a variable"
    for field in ("startup_timeout", "list_timeout", "call_timeout", "call_timeout_max"):
        value = getattr(preset, field)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and not (is_number and 0 < value < math.inf):
            yield field, f"must be a number of seconds above 0, got {value!r}"


def _check_recipes(preset: ServerPreset) -> _Found:
    for name, recipe in preset.verify.items():
        if not (isinstance(recipe, Mapping) and {"tool", "happened"} <= recipe.keys() <= _RECIPE):
            yield "verify", f"must map {name} to a table of {', '.join(_RECIPE)}"


def _check_reach(preset: ServerPreset) -> _Found:
    local = preset.transport == "stdio"
    needed, absent = ("command", ("url", "headers")) if local else ("url", ("command", "args", "env"))
    if not getattr(preset, needed).strip():
        yield needed, f"is needed by a {preset.transport} server"
    for field in absent:
        if getattr(preset, field):
            yield field, f"has no use in a {preset.transport} server"
    if preset.url and not _WEB.fullmatch(preset.url):
        yield "url", "must begin with http:// or https://"
    runner = _program(preset.command)
    if runner in _PACKAGES:
        exact, _, _, example = _PACKAGES[runner]
        packages = _packages(runner, preset.args)
        if not packages:
            yield "args", f"must name the package that {runner} starts, as {example}"
        for package in packages:
            if not exact.fullmatch(package):
                yield "args", f"must give an exact version of the package, as {example}, got {package!r}"


def _check_references(preset: ServerPreset) -> _Found:
    declared = {given.name for given in preset.inputs}
    used = set()
    for field, value in preset.launch_texts():
        if "\0" in value:
            yield field, "contains a NUL character"
        piece = malformed(value)
        if piece:
            yield field, f"{piece} is not a reference to an input; write ${{NAME}}"
        for reference in references(value):
            used.add(reference.name)
            if reference.name not in declared:
                yield field, f"refers to {reference.name}, which is not among the inputs"
            if reference.default is not None:
                yield field, f"gives {reference.name} a default, which belongs to the input"
    for name in sorted(declared - used):
        yield "inputs", f"declares {name}, which nothing refers to"


def _check_inputs(preset: ServerPreset) -> _Found:
    names = [given.name for given in preset.inputs]
    for name in names:
        if names.count(name) > 1:
            yield "inputs", f"declares {name} twice"
    for given in preset.inputs:
        optional = not (given.required or given.default)
        for field in ("command", "url"):
            if optional and given.name in _names(getattr(preset, field)):
                yield field, f"refers to {given.name}, which is optional and has no default"


def _check_secrets(preset: ServerPreset) -> _Found:
    secrets = {given.name for given in preset.inputs if given.secret}
    for field, value in preset.launch_texts():
        table, _, variable = field.partition(".")
        is_secret = table in ("env", "headers") and bool(value) and secret_detection.is_secret(variable)
        names = set(_names(value))
        for name in sorted(secrets & names) if field.startswith(("args", "command")) else ():
            yield field, f"shows the secret {name} to all users of the machine; put it in env"
        if not names and (is_secret or any(secret_detection.in_urls(value))):
            yield field, "contains a literal secret; declare an input for it"
        for name in sorted(names - secrets) if is_secret else ():
            yield field, f"needs the input {name} to be declared as secret"
    for index, start in secret_detection.in_arguments(preset.args):
        if not references(preset.args[index][start:]):
            yield f"args[{index}]", "contains a literal secret; declare an input for it"


def _packages(runner: str, args: Sequence[str]) -> list[str]:
    _, options, valued, _ = _PACKAGES[runner]
    found, holds_program, words = list[str](), False, iter(args)
    for word in words:
        option, separator, value = word.partition("=")
        if option in options:
            found.append(value if separator else next(words, ""))
            holds_program = holds_program or option not in ("-w", "--with")
        elif not separator and valued.fullmatch(word):
            next(words, None)
        elif not word.startswith("-") and word != "run":
            # It is a program of a package that an option named; the options after it are those of the server.
            return found if holds_program else [*found, word]
    return found


def _program(command: str) -> str:
    return PurePath(command).stem


def _names(value: str) -> list[str]:
    return [reference.name for reference in references(value)]


def _wrong(instance: object, field: str, reason: str) -> ValueError:
    return ValueError(f"{type(instance).__name__}.{field} {reason}")
