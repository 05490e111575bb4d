"""The values that a user gives to the inputs of a preset, and the config of a server made with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.types import PresetInput, ServerPreset
from pflow_mcp_plugin.variable_references import references, substitute

Lookup = Callable[[str], str | None]
"""Returns the value of a variable from the environment or the settings, None if it is not set."""


@attrs.frozen(kw_only=True)
class InputValues:
    """What the inputs of a preset stand for.

    Attributes:
        texts: By input name, what replaces its references; a secret is replaced by a reference. Optional
            inputs without a value are left out.
        secrets: Secrets that were given as values, by name; they belong into the settings.
        missing: Required inputs without a value.
    """

    texts: Mapping[str, str]
    secrets: Mapping[str, str] = attrs.field(repr=False)
    missing: tuple[PresetInput, ...]


def parse(preset: ServerPreset, pairs: Iterable[str]) -> dict[str, str]:
    """Return the values of a preset's inputs from `NAME=VALUE` pairs; an empty value is the same as none.

    Raises:
        PflowError: A pair is malformed, or the preset has no such input.
    """
    values = {}
    for pair in pairs:
        name, found, value = pair.partition("=")
        if not found:
            raise PflowError("--input takes NAME=VALUE", suggestions=(_inputs(preset),), kind="usage")
        if name not in {given.name for given in preset.inputs}:
            message = f"Preset {preset.name} has no input {name}"
            raise PflowError(message, suggestions=(_inputs(preset),), kind="usage")
        values[name] = value
    return {name: value for name, value in values.items() if value}


def resolve(preset: ServerPreset, given: Mapping[str, str], lookup: Lookup) -> InputValues:
    """Return what each input stands for, and which values are missing.

    Args:
        preset: The preset.
        given: Values by input name.
        lookup: Tells which secrets are already set.

    Raises:
        PflowError: A value is not among the choices of its input.
    """
    texts: dict[str, str] = {}
    secrets: dict[str, str] = {}
    missing = []
    for each in preset.inputs:
        value = given.get(each.name) or each.default
        if each.secret and not _is_reference(value):
            if value:
                secrets[each.name] = value
            value = f"${{{each.name}}}" if value or lookup(each.name) else ""
        if value:
            texts[each.name] = _checked(preset, each, value)
        elif each.required:
            missing.append(each)
    return InputValues(texts=texts, secrets=secrets, missing=tuple(missing))


def lacking(preset: ServerPreset, missing: Iterable[PresetInput]) -> PflowError:
    """Return the error that names all preset inputs without a value, each with a way to give it."""
    missing = tuple(missing)
    named = ", ".join(f"{each.name} ({each.description})" for each in missing)
    plain = " ".join(f"--input {each.name}=..." for each in missing if not each.secret)
    steps = [f"pflow mcp add {preset.name} {plain}"] if plain else []
    steps += [f"pflow settings set {each.name} -" for each in missing if each.secret]
    return PflowError(
        f"Preset {preset.name} needs: {named}",
        details={"preset": preset.name, "missing": [each.name for each in missing]},
        suggestions=tuple(steps),
        kind="usage",
    )


def _checked(preset: ServerPreset, each: PresetInput, value: str) -> str:
    if each.choices and value not in each.choices:
        message = f"{each.name} of preset {preset.name} cannot be {value!r}"
        raise PflowError(message, suggestions=(f"Choose from: {', '.join(each.choices)}",), kind="usage")
    if each.path and value != each.default and not references(value):
        return str(Path(value).expanduser().absolute())
    return value


def _is_reference(value: str) -> bool:
    """Whether a value consists of references only."""
    return bool(references(value)) and not substitute(value, lambda _: "").strip()


def _inputs(preset: ServerPreset) -> str:
    names = ", ".join(given.name for given in preset.inputs)
    return f"Its inputs: {names}" if names else "It has no inputs"


_TIMES = ("startup_timeout", "list_timeout", "call_timeout", "call_timeout_max")


def server_table(preset: ServerPreset, texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the server table made from a preset, as the config file holds it.

    Args:
        preset: The preset.
        texts: What each input stands for. An argument, variable or header that refers to an input without
            a text is left out.
    """
    table: dict[str, Any] = {} if preset.transport == "stdio" else {"type": preset.transport}
    table |= {key: _filled(getattr(preset, key), texts) for key in ("command", "url") if getattr(preset, key)}
    args = [_filled(value, texts) for value in preset.args if _is_complete(value, texts)]
    table |= {"args": args} if args else {}
    for key in ("env", "headers"):
        pairs = getattr(preset, key).items()
        filled = {name: _filled(value, texts) for name, value in pairs if _is_complete(value, texts)}
        table |= {key: filled} if filled else {}
    table |= {"tools": {"allow": [*preset.tools]}} if preset.tools else {}
    table |= {"rename": dict(preset.rename)} if preset.rename else {}
    table |= {key: getattr(preset, key) for key in _TIMES if getattr(preset, key) is not None}
    return {**table, "preset": preset.name}


def _is_complete(value: str, texts: Mapping[str, str]) -> bool:
    return all(reference.name in texts for reference in references(value))


def _filled(value: str, texts: Mapping[str, str]) -> str:
    escaped = value.replace("$${", "$$${")  # the config file holds an escaped ${ as escaped
    return substitute(escaped, lambda reference: texts[reference.name])
