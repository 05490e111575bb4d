"""The official tests of JSON Schema (draft 2020-12), and what the check of arguments leaves to the server."""

import json
import lzma
from pathlib import Path

import pytest

from pflow_mcp_plugin.errors import Where
from pflow_mcp_plugin.schemas.argument_validation import Validator

SUITE = Path(__file__).parents[1] / "data/json-schema-test-suite.json.xz"
DIFFERENT = json.loads(SUITE.with_name("json-schema-differences.json").read_text())
"""The cases where the check accepts what the suite calls invalid, or the other way: by reason and group."""


def differing(groups):
    """Return the names of the cases that the check judges otherwise than the suite, by their group."""
    found = {}
    for group in groups:
        validator = Validator(group["schema"], Where(server="s", tool="t"))
        for case in group["tests"]:
            if (not validator.violations(case["data"])) is not case["valid"]:
                found.setdefault(group["description"], []).append(case["description"])
    return found


CASES = json.loads(lzma.decompress(SUITE.read_bytes()))


@pytest.mark.parametrize("keyword", CASES)
def test_the_check_says_what_the_suite_says_but_where_there_is_a_reason(keyword):
    listed = DIFFERENT.get(keyword, {"cases": {}})
    assert differing(CASES[keyword]) == listed["cases"]


def test_every_difference_has_a_reason_and_refuses_nothing_that_is_valid():
    assert sum(len(group["tests"]) for groups in CASES.values() for group in groups) == 1257
    assert all(entry["reason"] for entry in DIFFERENT.values())
    refused = [
        (keyword, case["description"])
        for keyword, entry in DIFFERENT.items()
        for group in CASES[keyword]
        for case in group["tests"]
        if case["valid"] and case["description"] in entry["cases"].get(group["description"], ())
    ]
    assert refused == [("vocabulary", "no validation: invalid number, but it still validates")]
