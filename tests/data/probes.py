"""Values made from a JSON Schema: some that fit it, and others with something wrong somewhere.

Nobody takes these for right or wrong: whether a value fits is for jsonschema to say. The same seed
makes the same values.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping
from math import inf, prod
from random import Random
from typing import Any

ENOUGH = 50
_TYPES = ("string", "integer", "number", "boolean", "null", "array", "object")
_TEXTS = ("", "a", "AS1", "AS64512\n", "2024-02-30", "https://example.com/?q=1")
_LETTERS = "abcGDZ019 -_./é\n"
_ODD = (None, True, False, 0, 1, 1.0, -1, 0.5, 10**20, "", "1", "null", [], [None], {}, {"odd": 1})
_DEEP = 4


class Maker:
    """Makes values for one schema.

    Args:
        schema: The whole schema; references are followed within it.
        seed: Chooses the values.
    """

    def __init__(self, schema: Mapping[str, Any], seed: str) -> None:
        self._root = schema
        self._random = Random(seed)

    def fitting(self) -> Any:
        """Return a value that is meant to fit: with few keys, with all of them, at a bound, odd but right."""
        return self._value(self._root, _DEEP, self._random.choice([0.0, 0.5, 0.5, 1.0]))

    def mutated(self) -> Any:
        """Return one that fits but for one or two changes: a key gone, another type, past a bound..."""
        value = self.fitting()
        for _ in range(self._random.choice([1, 1, 2])):
            value = self._changed(value)
        return value

    def _value(self, schema: Any, depth: int, share: float) -> Any:
        while isinstance(schema, Mapping) and "$ref" in schema:
            schema = pointed(self._root, schema["$ref"])
        if not isinstance(schema, Mapping):
            return copy.deepcopy(self._random.choice(_ODD))
        for key in ("anyOf", "oneOf"):
            if key in schema:
                return self._value(self._random.choice(schema[key]), depth, share)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self._random.choice(schema["enum"])
        names = schema.get("type", "object" if "properties" in schema else _TYPES)
        name = names if isinstance(names, str) else self._random.choice(names)
        return getattr(self, f"_{name}")(schema, depth - 1, share)

    def _null(self, _schema: Mapping[str, Any], _depth: int, _share: float) -> None:
        return None

    def _boolean(self, _schema: Mapping[str, Any], _depth: int, _share: float) -> bool:
        return self._random.random() < 0.5

    def _string(self, schema: Mapping[str, Any], _depth: int, _share: float) -> str:
        shortest = schema.get("minLength", 0)
        length = self._random.choice([shortest, shortest + 1, schema.get("maxLength", shortest + 9)])
        made = "".join(self._random.choices(_LETTERS, k=length))
        known = [text for text in _TEXTS if len(text) >= shortest]
        text = self._random.choice([made, made, *known])
        if re.search(schema.get("pattern", ""), text):
            return text
        # what the few patterns there are take: letters of trains, numbers of networks
        trains = "".join(self._random.choices("GDZTKOFS", k=length))
        return self._random.choice([trains, f"AS{self._random.randrange(1000)}"])

    def _number(self, schema: Mapping[str, Any], depth: int, share: float) -> float:
        least, most = bounds(schema)
        if self._random.random() < 0.5 or most - least < 1:
            return self._integer(schema, depth, share)
        return least + self._random.random() * (min(most, least + 100) - least)

    def _integer(self, schema: Mapping[str, Any], _depth: int, _share: float) -> float:
        least, most = bounds(schema)
        number = self._random.choice([least, most, self._random.randint(int(least), int(most))])
        return float(number) if self._random.random() < 0.1 else int(number)

    def _array(self, schema: Mapping[str, Any], depth: int, share: float) -> list[Any]:
        least = schema.get("minItems", 0)
        more = [least + 1, schema.get("maxItems", least + 3)] if depth > 0 else []
        items = schema.get("items", {})
        return [self._value(items, depth, share) for _ in range(self._random.choice([least, *more]))]

    def _object(self, schema: Mapping[str, Any], depth: int, share: float) -> dict[str, Any]:
        properties, required = schema.get("properties", {}), schema.get("required", [])
        share = share if depth > 0 else 0
        others = schema.get("additionalProperties", True)
        made = {
            key: self._value(part, depth, share)
            for key, part in properties.items()
            if key in required or self._random.random() < share
        }
        made |= {key: None for key in required if key not in made}
        if others is not False and self._random.random() < 0.3:
            made[f"other{self._random.randrange(100)}"] = self._value(others, depth, share)
        return made

    def _changed(self, value: Any) -> Any:
        """Change something inside, mostly; else the value as a whole."""
        inside = list(value) if isinstance(value, dict) else []
        inside += range(len(value)) if isinstance(value, list) else []
        if inside and self._random.random() < 0.75:
            value, key = copy.copy(value), self._random.choice(inside)
            if self._random.random() < 0.25:
                del value[key]
            else:
                value[key] = self._changed(value[key])
            return value
        return self._random.choice([*self._near(value), copy.deepcopy(self._random.choice(_ODD))])

    def _near(self, value: Any) -> Iterator[Any]:
        if isinstance(value, dict):
            yield {**value, f"odd{self._random.randrange(100)}": self._random.choice(_ODD)}
        elif isinstance(value, list):
            yield from ([*value, self._random.choice(_ODD)], value * 2, value[:-1])
        elif isinstance(value, str):
            yield from (value.swapcase(), value + " ", value + "\n", value[:-1], [value], value * 40)
        elif isinstance(value, int | float):
            yield from (value + 1, value - 1, -value, value * 1000, float(value), str(value), value + 0.5)
        yield [value]


def pointed(root: Any, reference: str) -> Any:
    """Return what `#/a/0/b` points at."""
    for part in reference.split("/")[1:]:
        root = root[int(part)] if isinstance(root, list) else root[part]
    return root


def bounds(schema: Mapping[str, Any]) -> tuple[float, float]:
    """Return the least and the greatest number of a schema, a few beyond zero where it names none."""
    least = schema.get("minimum", schema.get("exclusiveMinimum", None))
    most = schema.get("maximum", schema.get("exclusiveMaximum", None))
    if least is None:
        least = -9 if most is None else most - 99
    return least, least + 99 if most is None else most


def how_many(schema: Any) -> float:
    """Return how many values fit a schema, at most, told apart by their JSON; `inf` if without end."""
    if not isinstance(schema, Mapping) or "$ref" in schema:
        return inf
    if "anyOf" in schema:
        return sum(how_many(member) for member in schema["anyOf"])
    if "const" in schema or "enum" in schema:
        return len(schema.get("enum", [None]))
    if schema.get("type") == "object" and schema.get("additionalProperties") is False:
        required, properties = schema.get("required", []), schema.get("properties", {})
        return prod(how_many(part) + (key not in required) for key, part in properties.items())
    if schema.get("type") == "integer" and {"minimum", "maximum"} <= schema.keys():
        return 2 * (schema["maximum"] - schema["minimum"] + 1)  # each with and without `.0`
    return {"boolean": 2, "null": 1}.get(str(schema.get("type")), inf)


def as_json(value: Any) -> str:
    """Return what tells two values apart: 1 is not 1.0, nor true."""
    return json.dumps(value, sort_keys=True)
