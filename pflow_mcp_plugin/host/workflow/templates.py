"""Templates such as `${path.to[0].value}` in params and outputs, and the declarations along their paths.

A string that consists of one template is replaced by the value, with its type; a template inside other
text is replaced by text. `$${` stands for a literal `${`. A path is a name, then `.name`, `[0]` or
`["any key"]` as often as needed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import attrs

from pflow_mcp_plugin.contract import Field, PflowError
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.contract.problems import PortableError
from pflow_mcp_plugin.host.workflow.coercion import json_in, type_names, type_of
from pflow_mcp_plugin.host.workflow.findings import cut, listing, parts_in, shown
from pflow_mcp_plugin.schemas.schema_reader import resolved_value

# Each "${" extends at most to the next brace, so the scan is linear in the text.
_PARTS = re.compile(r"\$\$\{|\$\{([^{}]*)\}|\$\{")
_HEAD = re.compile(r"[\w-]+")
# An index has nine digits at most, as `int` refuses thousands of digits.
_STEP = re.compile(r"""\.([\w-]+)|\[(-?\d{1,9})\]|\["([^"]*)"\]|\['([^']*)'\]""")


_FOREIGN = re.compile(r"\{\{\s*([\w-]+)([^{}\s]*)\s*\}\}|(?<![\w$\\])\$([A-Za-z_]\w*)")
"""What other programs write instead of `${name}`: `{{name.key}}` and `$name`."""
_SHOWN = 12
"""For a list longer than this, a template's error names only the first and the last index."""
_EMPTY = frozenset({"int", "float", "bool", "None"})
"""Types of values without members; a string is not one, as it may hold JSON."""
_COMPOSED = ("$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "dependentSchemas")
"""A declaration whose schema has one of these may have more than its own `properties`."""


@attrs.frozen
class TemplateReference:
    """A well-formed template such as `${a.b}`: its text as written and the path it names."""

    text: str
    path: tuple[str | int, ...]

    @property
    def root(self) -> str:
        return str(self.path[0])


@attrs.frozen
class Malformed:
    """A `${` that does not begin a valid template."""

    text: str


class MissingValue(PortableError, LookupError):
    """The path of a template such as `${a.b}` leads nowhere.

    `reached` is the part of the path that is there, and `available` is what could have followed it; its
    message has `leaf` instead, the value at `reached` in words, if that is of a type without members.
    """

    def __init__(self, reached: str, available: Sequence[str], leaf: str = "") -> None:
        self.reached = reached
        self.available = tuple(available)
        found = f"is {leaf}" if leaf else f"has {listing(available)}"
        super().__init__(f"{reached} {found}" if reached else f"there is {listing(available)}")


@attrs.frozen
class Absent:
    """Stands for the value of a template that has none in this run: null, but empty inside other text."""

    error: PflowError


IN_CODE = "Pass the value in another parameter, such as inputs, and use its name; $${ is a literal ${"
"""What to do about a template in code."""


def in_code(template: str, where: str = "") -> str:
    """Return the message that a template such as `${name}` is in code at `where`, where none may be."""
    return f"{template} is in code{where}: no value may become part of code"


Lookup = Callable[[TemplateReference], Any]
"""Returns the value of a template, or `Absent`, or raises `MissingValue`."""


def parse(text: str) -> list[str | TemplateReference | Malformed]:
    """Return the parts of a string: literals (`$${` unescaped), templates, malformed templates."""
    parts: list[str | TemplateReference | Malformed] = []
    end = 0
    for match in _PARTS.finditer(text):
        if match.start() > end:
            parts.append(text[end : match.start()])
        if match[0] == "$${":
            parts.append("${")
        else:
            path = parse_path(match[1]) if match[1] is not None else None
            parts.append(Malformed(match[0]) if path is None else TemplateReference(match[0], path))
        end = match.end()
    if end < len(text):
        parts.append(text[end:])
    return parts


@lru_cache(maxsize=1_000)  # a batch has the same paths for each item
def parse_path(text: str) -> tuple[str | int, ...] | None:
    """Return the steps of a template's path, None if it is malformed."""
    text = text.strip()
    head = _HEAD.match(text)
    if not head:
        return None
    path: list[str | int] = [head[0]]
    end = head.end()
    while end < len(text):
        step = _STEP.match(text, end)
        if not step:
            return None
        name, index, *quoted = step.groups()
        path.append(int(index) if index is not None else next(p for p in (name, *quoted) if p is not None))
        end = step.end()
    return tuple(path)


def mapped_source(name: str) -> TemplateReference:
    """Return the source in a mapping of outputs as the reference that it would be in a template."""
    return TemplateReference(name, parse_path(name) or (name,))


def foreign_templates(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield what looks like another program's template: as written, its first name, and as `${...}`."""
    for match in _FOREIGN.finditer(text):
        name, rest, plain = match.groups()
        yield match[0], name or plain, f"${{{plain or name + rest}}}"


def lone(value: object) -> TemplateReference | None:
    """Return the template that a value consists of, None if the value is anything else."""
    if not isinstance(value, str) or not value.startswith("${"):
        return None
    match parse(value):
        case [TemplateReference() as reference]:
            return reference
    return None


def has_template(value: object) -> bool:
    """Return whether a value holds templates, well-formed or not, at any depth."""
    return any(True for _ in references(value))


def references(value: object, path: str = "$") -> Iterator[tuple[str, TemplateReference | Malformed]]:
    """Yield every template in a value with the JSON path of the string that holds it."""
    for where, text in strings(value, path):
        yield from ((where, part) for part in parse(text) if not isinstance(part, str))


def named(value: object) -> Iterator[TemplateReference]:
    """Yield the well-formed templates in a value."""
    yield from (part for _, part in references(value) if isinstance(part, TemplateReference))


def strings(value: object, path: str) -> Iterator[tuple[str, str]]:
    """Yield each string that may hold a template such as `${name}`, with its JSON path; keys may not."""
    return ((where, part) for where, part in parts_in(value, path) if isinstance(part, str))


def or_text(lookup: Lookup) -> Lookup:
    """Return a lookup that leaves templates without a value as text."""

    def found(reference: TemplateReference) -> Any:
        try:
            return lookup(reference)
        except MissingValue:
            return reference.text

    return found


def resolve(value: object, lookup: Lookup) -> Any:
    """Fill in the templates in a JSON value, at any depth; keys of objects stay as they are."""

    def filled(text: str) -> Any:
        if "${" not in text:
            return text
        parts = parse(text)
        values = [_value_of(part, lookup) for part in parts]
        if len(parts) == 1 and isinstance(parts[0], TemplateReference):
            return None if isinstance(values[0], Absent) else values[0]
        return "".join(map(inserted, values))

    return with_strings(value, filled)


def literal(value: Any) -> Any:
    """Return `value` with its `${` escaped at any depth, so that no template in it is filled in."""
    return with_strings(value, lambda text: text.replace("${", "$${"))


def with_strings(value: object, change: Callable[[str], Any]) -> Any:
    """Return a value that may hold templates with each of its strings changed, except keys of objects."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: with_strings(item, change) for key, item in value.items()}
    return [with_strings(item, change) for item in value] if isinstance(value, list) else value


def inserted(value: object) -> str:
    """Return the text that replaces a template with this value within other text."""
    if isinstance(value, Absent):
        raise value.error
    return as_text(value)


def _value_of(part: str | TemplateReference | Malformed, lookup: Lookup) -> Any:
    if isinstance(part, TemplateReference):
        return lookup(part)
    return part.text if isinstance(part, Malformed) else part


def follow(value: object, path: Sequence[str | int], reached: str = "") -> Any:
    """Follow a template's path into a value; strings along the path are parsed if they are JSON.

    If a step does not exist, `MissingValue` names those that do.
    """
    for step in path:
        inside = json_in(value) if isinstance(value, str) else None
        found, value = _step(value if inside is None else inside, step)
        if not found:
            # The value at `reached`, in words, if it has no members.
            leaf = "" if isinstance(value, dict | list | tuple) else shown(value)
            leaf = "a string that is not JSON" if isinstance(value, str) else leaf
            names = list(map(str, value)) if isinstance(value, dict) else []
            if isinstance(value, list | tuple):
                names = [f"[{index}]" for index in range(len(value))]
                names = names if len(names) <= _SHOWN else [names[0], "...", names[-1]]
            raise MissingValue(reached, names, leaf)
        dotted = f"{reached}.{step}" if reached else str(step)
        reached = f"{reached}[{step}]" if isinstance(step, int) else dotted
    return value


def _step(value: object, step: str | int) -> tuple[bool, object]:
    """Return whether a step of a template's path exists, and where it leads (to the same value if not)."""
    if isinstance(value, dict):
        return (True, value[step]) if step in value else (False, value)
    if isinstance(value, (list, tuple)):
        index = int(step) if str(step).removeprefix("-").isdecimal() else len(value)
        return (True, value[index]) if -len(value) <= index < len(value) else (False, value)
    return False, value


def as_text(value: object) -> str:
    """Return a value as the text that replaces its `${...}` in a string: any value but a string as JSON."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)  # a node may write any Python object
    except (TypeError, ValueError, RecursionError) as error:
        raise PflowError(f"{type(value).__name__} cannot be written as text: {cut(str(error))}") from error


@attrs.frozen(kw_only=True)
class Misstep:
    """The step along a template's path, as in `${path.to[0]}`, that the declaration `within` does not have.

    `known` are the names that it has, empty if the value has no members. The step is `certain` to be wrong if
    the declaration excludes it, and not just fails to name it.
    """

    step: str
    within: Field
    known: tuple[str, ...] = ()
    certain: bool = True


def inside(field: Field, path: Sequence[str | int]) -> Field | Misstep | None:
    """Follow declarations along a template's path, such as `.to[0]`, to that at its end, or its misstep."""
    for step in path:
        found = _member(field, step)
        if not isinstance(found, Field):
            return found
        field = found
    return field


def _member(field: Field, step: str | int) -> Field | Misstep | None:
    types = type_names(field)
    if types <= _EMPTY:
        return Misstep(step=str(step), within=field)
    schema = resolved_value(field.schema)
    if "str" in types or not isinstance(schema, Mapping) or any(key in schema for key in _COMPOSED):
        return None
    if isinstance(step, int):
        items = None if "prefixItems" in schema else schema.get("items")
        return _described(f"{field.key}[{step}]", items, schema)
    properties, others = schema.get("properties"), schema.get("additionalProperties")
    if not isinstance(properties, Mapping) or not properties or schema.get("patternProperties"):
        return None
    if step in properties or others:
        return _described(step, properties.get(step, others), schema)
    known = tuple(str(key) for key in properties)
    # A schema allows further properties unless it says otherwise.
    return Misstep(step=step, within=field, known=known, certain=others is False)


def _described(key: str, schema: JSON, root: JSON) -> Field | None:
    found = resolved_value(schema, root)
    if not isinstance(found, Mapping):
        return None
    stated = found.get("type")
    names = [name for name in (stated if isinstance(stated, list) else [stated]) if isinstance(name, str)]
    kind = "any" if found.get("nullable") else " | ".join(names) or "any"
    return Field(key=key, type=kind, schema=found)


def item_of(items: Field | None, name: str) -> Field:
    """Return the declaration of a template's first name, `${name}`, if it is each item of a list."""
    found = inside(items, [0]) if items else None
    return attrs.evolve(found, key=name) if isinstance(found, Field) else Field(key=name)


def item_among(items: Sequence[Any], name: str) -> Field:
    """Return the declaration of a template's first name, `${name}`, if it is each item of a literal list."""
    if not items or any(isinstance(item, str) and has_template(item) for item in items):
        return Field(key=name)
    types = dict.fromkeys(map(type_of, items))
    schema: JSONObject | None = None
    if [*types] == ["dict"]:
        keys: dict[str, JSON] = {str(key): {} for item in items for key in item}
        schema = {"properties": keys, "additionalProperties": False}
    return Field(key=name, type=" | ".join(types), schema=schema)
