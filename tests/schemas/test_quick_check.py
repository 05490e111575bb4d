import pytest

from pflow_mcp_plugin.contract import UNKNOWN
from pflow_mcp_plugin.schemas.quick_check import plainly_fits

ROWS = {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}}


@pytest.mark.parametrize(
    ("schema", "fitting", "others"),
    [
        (True, [1, None, UNKNOWN], []),
        (False, [UNKNOWN], [1]),
        ({"type": "integer"}, [1], [True, 1.5, "1", None]),
        ({"type": "string", "nullable": True}, ["a", None], [1]),
        ({"minimum": 1, "maximum": 2.5}, [1, 2.5, "", True, None, {}], [0, 2.6]),
        ({"minimum": True}, ["a"], [1]),
        (
            {"minLength": 1, "maxLength": 2, "minItems": 1, "maxItems": 2},
            ["a", "ab", [1]],
            ["", "abc", [], [1, 2, 3]],
        ),
        ({"enum": ["a", 1]}, ["a"], ["b", 1]),
        ({"anyOf": [{"type": "string"}, ROWS]}, ["a", [{"n": 1}]], [1]),
        (
            {"required": ["a"], "properties": {"a": {"type": "null"}}},
            [{"a": None, "b": 1}, 3],
            [{}, {"a": 1}],
        ),
        ({"properties": {"a": True}, "additionalProperties": False}, [{}, {"a": 1}], [{"b": 1}]),
        ({"additionalProperties": {"type": "string"}}, [], [{"b": "x"}]),
    ],
)
def test_what_plainly_fits_is_accepted_and_the_rest_left_to_jsonschema(schema, fitting, others):
    assert [value for value in (*fitting, *others) if plainly_fits(schema, value)] == fitting


@pytest.mark.parametrize(("levels", "fits"), [(59, True), (60, False)])
def test_only_so_many_levels_are_read(levels, fits):
    schema, value = {"type": "string"}, "x"
    for _ in range(levels):
        schema, value = {"items": schema}, [value]
    assert plainly_fits(schema, value) is fits
