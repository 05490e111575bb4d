"""What is known of an expression before a run: which values it reads, what type it has, what cannot be right.

A shape is what is known of one value. Where nothing is known, nothing is reported: a value may be of any
type until its declaration says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from pflow_mcp_plugin.contract import Field
from pflow_mcp_plugin.contract.json_types import FRIENDLY_NAMES, JSON
from pflow_mcp_plugin.host.workflow.coercion import type_names, type_of
from pflow_mcp_plugin.host.workflow.constructs import Path
from pflow_mcp_plugin.host.workflow.expressions.arithmetic import steps
from pflow_mcp_plugin.host.workflow.expressions.expression import Expression, Node
from pflow_mcp_plugin.host.workflow.expressions.functions import RETURNS, signatures
from pflow_mcp_plugin.host.workflow.findings import TYPE_WORDS

Declared = Callable[[Path], Field | None]
"""Returns the declaration of the value at a path, None if it is unknown."""

_ANY: frozenset[str] = frozenset()
"""Stands for an unknown type."""
_NUMBERS = frozenset({"int", "float"})
_LARGEST = 5_000
"""The most parts of a value that are declared: more than the longest expression can write out."""
_KEEP_ITEMS = frozenset({"reverse", "sort", "sort_by", "unique"})


@attrs.frozen(kw_only=True)
class Shape:
    """The shape of a value in an expression.

    `types` are its possible types, empty if nothing is known. `path` is where the value comes from, None if
    it is made; `members` are those of an object that the expression makes. `size` is how many shapes are in
    it; a shape that occurs twice counts twice.
    """

    types: frozenset[str] = _ANY
    path: Path | None = None
    item: Shape | None = None
    members: Mapping[str, Shape] | None = None
    size: int = attrs.field(init=False)

    @size.default
    def _size(self) -> int:
        inside: list[Shape] = [*(self.members or {}).values(), *filter(None, [self.item])]
        return 1 + sum(shape.size for shape in inside)

    def schema(self) -> dict[str, JSON]:
        """Return the JSON Schema of a made value's shape, for templates that lead into it.

        `{a: @, b: @} | {a: @, b: @} | ...` doubles with each step; a shape that large is not described.
        """
        schema: dict[str, JSON] = {"type": sorted(self.types)} if self.types else {}
        if self.size > _LARGEST:
            return schema
        if self.members is not None:
            schema["properties"] = {name: shape.schema() for name, shape in self.members.items()}
            schema["additionalProperties"] = False
        if self.item is not None:
            schema["items"] = self.item.schema()
        return schema

    def field(self, key: str) -> Field:
        return Field(key=key, type=" | ".join(sorted(self.types)) or "any", schema=self.schema() or None)


@attrs.define(kw_only=True, eq=False, repr=False)
class Reading:
    """What is known of an expression from the shapes of its values.

    `paths` are the values that it reads, in order. `compared` are the names at the root on one side of a
    comparison. `everything` says whether all values in scope are read as a whole. Each of the `mistakes`
    comes with a next step. `result_types` are the types that its value may have, empty if nothing is known.
    """

    paths: dict[Path, None] = attrs.field(factory=dict)
    compared: set[str] = attrs.field(factory=set)
    everything: bool = False
    mistakes: list[tuple[str, str]] = attrs.field(factory=list)
    result: Shape = Shape()
    result_types: frozenset[str] = _ANY

    @classmethod
    def of(
        cls, expression: Expression, declared: Declared = lambda _: None, current: Shape | None = None
    ) -> Reading:
        """Find the shapes in an expression; `@` begins as `current`, by default all values in scope."""
        reading = cls()
        tree = _TreeReader(reading, declared)
        reading.result = tree.used(expression.tree, current or Shape(path=()))
        reading.result_types = tree.types(reading.result)
        return reading

    @property
    def longest_paths(self) -> list[Path]:
        leading = {path[:length] for path in self.paths for length in range(1, len(path))}
        return [path for path in self.paths if path not in leading]


class _TreeReader:
    """Works out the shapes in an expression's syntax tree: a method for each kind of node."""

    def __init__(self, reading: Reading, declared: Declared) -> None:
        self.reading = reading
        self.declared = declared

    def used(self, node: Node, current: Shape) -> Shape:
        """Return the shape of a value that the expression uses whole, and note that the value is read."""
        shape = self.shape(node, current)
        self.reading.everything = self.reading.everything or shape.path == ()
        return shape

    def shape(self, node: Node, current: Shape) -> Shape:
        read = getattr(self, node["type"], None)
        if read is not None:
            shape: Shape = read(node, current)
            return shape
        for child in node["children"]:
            if isinstance(child, dict):
                self.used(child, current)
        return Shape()

    def types(self, shape: Shape) -> frozenset[str]:
        if shape.types or not shape.path:
            return shape.types
        field = self.declared(shape.path)
        known = frozenset(type_names(field)) if field else _ANY
        return known if known <= TYPE_WORDS.keys() else _ANY

    def item(self, shape: Shape) -> Shape:
        if shape.item is not None:
            return shape.item
        return Shape(path=(*shape.path, 0)) if shape.path else Shape()

    # Methods named after the kinds of nodes of the tree; see `shape`.

    def current(self, _: Node, current: Shape) -> Shape:
        return current

    identity = current

    def root(self, _: Node, __: Shape) -> Shape:
        return Shape(path=())

    def literal(self, node: Node, _: Shape) -> Shape:
        return Shape(types=frozenset({type_of(node["value"])}))

    def field(self, node: Node, current: Shape) -> Shape:
        name: str = node["value"]
        if current.members is not None:
            if name not in current.members:
                self.mistake(f"there is no {name} among {', '.join(current.members)}", "Correct the name")
            return current.members.get(name, Shape())
        if self.types(current) == {"list"}:
            self.mistake(f"{name} is looked up in a list", f"Write [].{name} for each of its items")
        if current.path is None:
            return Shape()
        return self.at((*current.path, name))

    def index(self, node: Node, current: Shape) -> Shape:
        if current.item is not None or not current.path:
            return current.item or Shape()
        return self.at((*current.path, node["value"]))

    def at(self, path: Path) -> Shape:
        self.reading.paths[path] = None
        return Shape(path=path)

    def subexpression(self, node: Node, current: Shape) -> Shape:
        for child in node["children"]:
            current = self.shape(child, current)
        return current

    pipe = index_expression = subexpression

    def slice(self, _: Node, current: Shape) -> Shape:
        return Shape(types=self.list_types(current), item=self.item(current))

    def list_types(self, base: Shape) -> frozenset[str]:
        return frozenset({"list"} if self.types(base) == {"list"} else {"list", "None"})

    def projection(self, node: Node, current: Shape) -> Shape:
        base = self.used(node["children"][0], current)
        for condition in node["children"][2:]:  # of a filter
            self.shape(condition, self.item(base))
        item = self.shape(node["children"][1], self.item(base))
        kept = attrs.evolve(item, types=self.types(item) - {"None"})  # null is dropped
        return Shape(types=self.list_types(base), item=kept)

    filter_projection = projection

    def value_projection(self, node: Node, current: Shape) -> Shape:
        self.used(node["children"][0], current)
        self.shape(node["children"][1], Shape())
        return Shape(types=frozenset({"list", "None"}))

    def flatten(self, node: Node, current: Shape) -> Shape:
        base = self.used(node["children"][0], current)
        item = self.item(base)
        types = self.types(item)
        if not types and not item.members:
            # The items may be lists, which `[]` merges, so the path is a guess, used only to name values.
            flat = Shape(path=item.path or None)
        else:
            flat = item if item.members is not None or "list" not in types else Shape()
        return Shape(types=self.list_types(base), item=flat)

    def multi_select_list(self, node: Node, current: Shape) -> Shape:
        for child in node["children"]:
            self.used(child, current)
        return Shape(types=frozenset({"list"}))

    def multi_select_dict(self, node: Node, current: Shape) -> Shape:
        members = {pair["value"]: self.used(pair["children"][0], current) for pair in node["children"]}
        return Shape(types=frozenset({"dict"}), members=members)

    def or_expression(self, node: Node, current: Shape) -> Shape:
        one, other = (self.used(child, current) for child in node["children"])
        types = self.types(one), self.types(other)
        return Shape(types=types[0] | types[1] if all(types) else _ANY)

    and_expression = or_expression

    def not_expression(self, node: Node, current: Shape) -> Shape:
        self.used(node["children"][0], current)
        return Shape(types=frozenset({"bool"}))

    def comparator(self, node: Node, current: Shape) -> Shape:
        for child in node["children"]:
            if child["type"] == "field" and current.path == ():
                self.reading.compared.add(child["value"])
        one, other = (self.types(self.used(child, current)) for child in node["children"])
        if node["value"] in ("eq", "ne"):
            # Null stands for a missing value, whatever is declared.
            known = one and other and "None" not in one | other
            if known and _loose(one).isdisjoint(_loose(other)):
                said = f"{_words(one)} is compared with {_words(other)}: they are never equal"
                self.mistake(said, "Convert one, as in to_number(value)")
            return Shape(types=frozenset({"bool"}))
        orders = [_loose(types) & {"str", "float"} for types in (one, other) if types]
        if not all(orders) or (len(orders) == 2 and orders[0].isdisjoint(orders[1])):
            self.mistake(
                f"{_words(one)} and {_words(other)} have no order: this is never true",
                "Compare two numbers, or two strings; to_number(value) makes a number of a string",
            )
        return Shape(types=frozenset({"bool", "None"}))

    def arithmetic(self, node: Node, current: Shape) -> Shape:
        sign, children = node["value"], node["children"]
        given = [self.types(self.used(child, current)) for child in children]
        for types in given:
            if types and types.isdisjoint(_NUMBERS):
                samples: dict[str, object] = {"str": "", "list": [], "None": None}
                step = next(filter(None, steps(sign, (samples.get(it, 0) for it in sorted(types)))), "")
                self.mistake(f"{sign} takes numbers, not {_words(types)}", step or "Take a number")
        if sign in ("/", "//", "%") and children[1]["type"] == "literal" and children[1]["value"] == 0:
            self.mistake(f"{sign} divides by zero", "Divide by another number")
        if sign == "/" or any(types == {"float"} for types in given):
            return Shape(types=frozenset({"float"}))
        return Shape(types=frozenset({"int"}) if all(types == {"int"} for types in given) else _NUMBERS)

    def expref(self, _: Node, __: Shape) -> Shape:
        return Shape()  # `function_expression` reads it, with the item that it is evaluated on

    def function_expression(self, node: Node, current: Shape) -> Shape:
        name: str = node["value"]
        arguments = [self.used(child, current) for child in node["children"]]
        signature = signatures()[name]
        for number, shape in enumerate(arguments):
            takes = signature.types_at(number)
            wanted = frozenset(FRIENDLY_NAMES[kind.partition("-")[0]] for kind in takes if kind != "expref")
            wanted |= _NUMBERS if "float" in wanted else _ANY
            given = self.types(shape)
            if wanted and given and given.isdisjoint(wanted):
                message = f"argument {number + 1} of {name}() is {_words(given)}"
                self.mistake(message, f"It takes {signature.usage}")
        children = node["children"]
        lists = [shape for shape, child in zip(arguments, children, strict=True) if child["type"] != "expref"]
        item = self.item(lists[0]) if lists else Shape()
        for child in (child for child in children if child["type"] == "expref"):
            inner = self.used(child["children"][0], item)
            if name == "map":
                return Shape(types=frozenset({"list"}), item=inner)
        types = frozenset({RETURNS[name]}) if name in RETURNS else _ANY
        return Shape(types=types, item=item if name in _KEEP_ITEMS and types == {"list"} else None)

    def mistake(self, message: str, step: str) -> None:
        self.reading.mistakes.append((message, step))


def _loose(types: frozenset[str]) -> frozenset[str]:
    return frozenset("float" if name in _NUMBERS else name for name in types)


def _words(types: frozenset[str]) -> str:
    return " or ".join(sorted({TYPE_WORDS[name] for name in types})) or "the other value"


def is_always_true(types: frozenset[str]) -> bool:
    """Return whether a condition of a shape with these types is true whatever its value."""
    return bool(types) and types <= _NUMBERS
