"""Schemas that no honest server sends: each keyword of JSON Schema holding what it may not hold."""

from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st
from jsonschema import Draft7Validator, Draft202012Validator

KEYWORDS = sorted(
    {
        *Draft7Validator.META_SCHEMA["properties"],
        *Draft202012Validator.VALIDATORS,
        *("$anchor", "$defs", "id", "minContains", "nullable"),
    }
)
ODD = (
    None,
    True,
    False,
    0,
    -1,
    1.5,
    10**400,
    float("inf"),
    "",
    "object",
    "#",
    "#/properties/a",
    "http://[::1",
    "(",
    "^(a+)+$",
    "\ud800",
    [],
    [None],
    [{}],
    [[]],
    [1, "a"],
    ["a", "a"],
    {},
    {"a": None},
    {"a": [{}]},
    {"(": {}},
    {"$ref": "#"},
    {"required": [{}]},
)
ARGUMENTS: tuple[dict[str, Any], ...] = (
    {},
    {"a": "a" * 50 + "!"},
    {"a": {"a": None, "b": [1, 2.5]}},
    {"a": [[], {"a": True}, "x"], "b": 10**400},
)


def one_by_one(keyword: str) -> Iterator[dict[str, Any]]:
    """Yield every odd value under a keyword, at the top, in an argument and in an alternative."""
    for value in ODD:
        odd = {keyword: value}
        yield {"type": "object", **odd}
        yield {"type": "object", "properties": {"a": odd}, "required": ["a"]}
        yield {"properties": {"a": {"anyOf": [{"items": odd}, odd, {"properties": {"a": odd}}]}}}


JUNK = st.recursive(
    st.sampled_from(ODD) | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*KEYWORDS, "a", "b"]), inner, max_size=4)
    ),
    max_leaves=20,
)
SCHEMAS = st.dictionaries(st.sampled_from([*KEYWORDS, "a"]), JUNK, max_size=5)
