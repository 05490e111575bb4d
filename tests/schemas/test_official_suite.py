"""The official tests of JSON Schema (draft 2020-12), and what the check of arguments leaves to the server."""

import json
import lzma
from pathlib import Path

import pytest

from pflow_mcp_plugin.errors import Where
from pflow_mcp_plugin.schemas.argument_validation import Validator

SUITE = Path(__file__).parents[1] / "data/json-schema-test-suite.json.xz"
CASES = json.loads(lzma.decompress(SUITE.read_bytes()))
LEFT_TO_THE_SERVER = {
    "anchor": 4,  # only references that are JSON pointers are followed
    "defs": 1,  # nothing is fetched, not even the metaschema
    "dynamicRef": 21,
    "multipleOf": 3,  # what is a multiple of a fraction depends on how numbers are rounded
    "not": 1,  # a `not` around unevaluatedProperties
    "patternProperties": 2,  # a pattern that may take more than linear time
    "ref": 18,  # as for `anchor`, and unevaluatedProperties
    "refRemote": 15,  # nothing is fetched
    "unevaluatedItems": 24,
    "unevaluatedProperties": 56,
    "uniqueItems": 17,  # it takes quadratic time
}
"""How many cases of a file the check accepts though the suite calls them invalid."""
REFUSED = {"vocabulary": ["no validation: invalid number, but it still validates"]}
"""The cases that it refuses though they are valid: a metaschema is not fetched, and switches nothing off."""


@pytest.mark.parametrize("keyword", CASES)
def test_the_check_says_what_the_suite_says_but_where_there_is_a_reason(keyword):
    accepted, refused = [], []
    for group in CASES[keyword]:
        validator = Validator(group["schema"], Where(server="s", tool="t"))
        for case in group["tests"]:
            fits = not validator.violations(case["data"])
            if fits is not case["valid"]:
                (accepted if fits else refused).append(case["description"])
    assert len(accepted) == LEFT_TO_THE_SERVER.get(keyword, 0), accepted
    assert refused == REFUSED.get(keyword, [])


def test_the_suite_is_whole():
    assert sum(len(group["tests"]) for groups in CASES.values() for group in groups) == 1257
