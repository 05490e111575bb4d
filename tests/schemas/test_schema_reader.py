import pytest

from pflow_mcp_plugin.errors import Where
from pflow_mcp_plugin.schemas.argument_validation import Validator
from pflow_mcp_plugin.schemas.schema_reader import (
    ResultForm,
    SchemaDocument,
    resolved_value,
    result_form,
)
from pflow_mcp_plugin.schemas.schema_reduction import Reduction

TEXT = {"type": "string"}
NULL = {"type": "null"}


def test_a_part_takes_along_what_contains_itself_under_names_of_its_own():
    tree = {
        "properties": {"next": {"$ref": "#/$defs/a~1b"}, "all": {"anyOf": [{"$ref": "#/definitions/a.b"}]}}
    }
    root = {
        "$defs": {"a/b": tree},
        "definitions": {"a.b": TEXT},
        "properties": {"x": {"$ref": "#/$defs/a~1b"}},
    }
    document = SchemaDocument(root)
    assert document.self_contained({"items": {"$ref": "#/$defs/a~1b"}, "$defs": {"own": TEXT}}) == {
        "items": {"$ref": "#/$defs/a~1b"},
        "$defs": {
            "own": TEXT,
            "a~1b": {
                "properties": {
                    "next": {"$ref": "#/$defs/a~1b"},
                    "all": {"anyOf": [{"$ref": "#/$defs/a.b"}]},
                }
            },
            "a.b": TEXT,
        },
    }
    for kept in (root, TEXT, {"$ref": "http://elsewhere"}):
        assert document.self_contained(kept) is kept


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"anyOf": [NULL, {"$ref": "#/$defs/t"}], "$defs": {"t": TEXT}}, TEXT),
        ({"oneOf": [TEXT, NULL]}, TEXT),
        ({"anyOf": [TEXT, {"type": "integer"}]}, {"anyOf": [TEXT, {"type": "integer"}]}),
        ({"anyOf": [NULL, True]}, {"anyOf": [NULL, True]}),
        ({"anyOf": [NULL, TEXT], "properties": {}}, {"anyOf": [NULL, TEXT], "properties": {}}),
    ],
)
def test_the_schema_of_a_value_is_the_one_that_is_not_null(schema, value):
    assert resolved_value(schema) == value


@pytest.mark.parametrize(
    ("schema", "form"),
    [
        (None, ResultForm()),
        ({"properties": {"result": TEXT}}, ResultForm(wrapped=True)),
        ({"properties": {"result": TEXT, "b": TEXT}}, ResultForm(wrapped=False)),
        ({"properties": {"content_blocks": TEXT}}, ResultForm(wrapped=False, names_content_blocks=True)),
    ],
)
def test_an_output_schema_says_how_a_result_is_to_be_read(schema, form):
    assert result_form(schema) == form


def test_nulls_that_mean_not_given_are_left_out_at_any_place_and_nothing_else_changes():
    unset = {"type": "string", "default": None}
    row = {"type": "object", "properties": {"a": unset, "b": {"type": ["string", "null"], "default": None}}}
    schema = {"properties": {"a": unset, "rows": {"type": "array", "items": row}, "any": {"type": "array"}}}
    validator = Validator(schema, Where())
    remove = validator.without_unset
    given = {"a": None, "rows": [{"a": None, "b": None}, {"a": "x"}], "any": [None], "other": None}
    assert validator.violations(given) == []
    assert remove(given) == {"rows": [{"b": None}, {"a": "x"}], "any": [None], "other": None}
    for kept in ({"a": "x", "rows": [{"b": None}]}, {}, {"rows": None}, {"any": {"a": None}}):
        assert remove(kept) is kept


WEAK = {"nullable": True, "type": "string"}
"""A schema that cannot be reduced exactly."""


@pytest.mark.parametrize(
    ("schema", "reduced"),
    [
        ("x", True),
        (False, False),
        (WEAK, {"anyOf": [NULL, TEXT]}),
        ({"not": TEXT, "contains": TEXT}, {"not": TEXT, "contains": TEXT}),
        *(
            ({"not": inside}, {})
            for inside in (WEAK, {"oneOf": []}, {"$ref": 3}, {"properties": {"a": WEAK}})
        ),
        ({"not": {"properties": 3}}, {}),
        ({"not": {"format": "email"}}, {"not": {}}),
        ({"not": {"uniqueItems": True}}, {}),
        ({"oneOf": [TEXT, WEAK]}, {"anyOf": [TEXT, {"anyOf": [NULL, TEXT]}]}),
        ({"oneOf": [TEXT, NULL]}, {"oneOf": [TEXT, NULL]}),
        (
            {"items": WEAK, "additionalProperties": WEAK},
            {"items": {"anyOf": [NULL, TEXT]}, "additionalProperties": {"anyOf": [NULL, TEXT]}},
        ),
        ({"properties": 3, "additionalProperties": False}, {}),
        ({"items": [TEXT], "additionalItems": False}, {"prefixItems": [TEXT], "items": False}),
        ({"not": {"items": TEXT, "additionalItems": False}}, {"not": {"items": TEXT}}),
        (
            {"exclusiveMinimum": True, "minimum": 3, "exclusiveMaximum": False, "maximum": 4},
            {"exclusiveMinimum": 3, "maximum": 4},
        ),
        ({"patternProperties": {f"^{n}": TEXT for n in range(21)}}, {}),
        (
            {"patternProperties": {f"^{n}": True for n in range(20)}},
            {"patternProperties": {f"^{n}": True for n in range(20)}},
        ),
        *(({"multipleOf": it}, {}) for it in (0, 0.5, True)),
        *(({"minLength": it}, {}) for it in (-1, 1.5, True)),
        *(({"minLength": it}, {"minLength": it}) for it in (0, 2.0)),
        *(({"type": it}, {}) for it in ("str", [], [3])),
        ({"required": ["a", 3], "enum": "x", "minimum": True}, {}),
        ({"dependentRequired": {"a": "b"}}, {}),
        (
            {"$schema": "http://json-schema.org/draft-06/schema#", "const": 1, "if": TEXT, "then": TEXT},
            {"const": 1},
        ),
        (
            {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#", "type": "string"},
            {"$ref": "#"},
        ),
        ({"$ref": "#", "type": "string"}, {"type": "string", "$ref": "#"}),
    ],
)
def test_a_schema_is_reduced_to_what_can_be_checked_and_never_made_stricter(schema, reduced):
    assert Reduction(SchemaDocument(schema)).reduce(schema) == reduced
