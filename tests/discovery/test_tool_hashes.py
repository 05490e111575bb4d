from hashlib import sha256

import attrs
import pytest

from pflow_mcp_plugin.catalog.json_values import canonical, manifest_hash, tool_hash
from pflow_mcp_plugin.types import Tool

TOOL = Tool(name="add", description="Adds", input_schema={"type": "object"})


def test_its_metadata_and_the_order_of_keys_do_not():
    assert tool_hash(attrs.evolve(TOOL, meta={"a": 1})) == tool_hash(TOOL)
    one = Tool(name="x", input_schema={"a": 1, "b": 2})
    assert tool_hash(one) == tool_hash(Tool(name="x", input_schema={"b": 2, "a": 1}))


def test_the_order_of_tools_does_not_change_the_manifest():
    other = Tool(name="sum")
    assert manifest_hash([TOOL, other]) == manifest_hash([other, TOOL])
    assert manifest_hash([TOOL]) != manifest_hash([TOOL, other])


def test_the_hash_is_taken_over_canonical_json_of_all_of_it():
    text = (
        '{"annotations":{},"description":"Adds","inputSchema":{"type":"object"},"name":"add",'
        '"outputSchema":null,"title":""}'
    )
    assert tool_hash(TOOL) == "sha256:" + sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            {"\u20ac": 1, "\r": 2, "\U0001f600": 3, "\ufb33": 4},
            '{"\\r":2,"\u20ac":1,"\U0001f600":3,"\ufb33":4}',
        ),
        ([1.0, 1e21, 1e-7, -0.0, 333333333.33333329], "[1,1e+21,1e-7,0,333333333.3333333]"),
        (2**53 - 1, "9007199254740991"),
    ],
)
def test_canonical_json_is_that_of_rfc_8785(value, text):
    assert canonical(value) == text.encode()


def nested(depth, leaf):
    value = leaf
    for level in range(depth):
        value = [value] if level % 2 else {"items": value}
    return value


HOSTILE = [
    2**63,
    -(2**63),
    10**5000,
    float("inf"),
    -float("inf"),
    float("nan"),
    "\ud800",
    "\\ud800",
    "\0eda080",
    {"\ud800": 1},
    {"\0integer": "0x8000000000000000"},
    True,
    1,
    "1",
    [],
    {},
    nested(5000, 1),
    nested(5000, 2),
    nested(5001, 1),
    nested(101, []),
    nested(101, {}),
]


def test_different_values_stay_different_and_none_is_refused():
    assert len({canonical(value) for value in HOSTILE}) == len(HOSTILE)
