"""The types of JSON values in the contract's annotations, and the names of the types of values."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

JSON: TypeAlias = bool | int | float | str | Sequence["JSON"] | Mapping[str, "JSON"] | None
"""A JSON value to read, such as a param as its workflow has it; narrow it with `isinstance`."""

JSONObject: TypeAlias = Mapping[str, JSON]
"""A JSON object to read; build one as `dict[str, JSON]`."""

FRIENDLY_NAMES: Mapping[str, str] = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "array": "list",
    "object": "dict",
    "null": "None",
}
"""For each type of JSON Schema, the friendly name that the types of params and outputs use."""

NAMES_OF_PYTHON: Mapping[type, str] = {
    **{kind: kind.__name__ for kind in (bool, int, float, str, list, dict)},
    type(None): "None",
}
"""The friendly name of the type of a JSON value in Python; compare `type(value)`, as True is an int there."""

PYTHON_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
"""For each type of JSON Schema, the types of its values in Python; compare `type(value)`: True is an int."""
