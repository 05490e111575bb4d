import re
from time import monotonic

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pflow_mcp_plugin.schemas.schema_reduction import is_linear, shortest_match

LENGTH = 100_000
ATOMS = st.sampled_from(["a", "b", "é", r"\d", r"\w", r"\s", r"\.", ".", "[ab]", "[^a]", "[b-d]", r"[\d.]"])
COUNTS = st.sampled_from(["", "", "", "*", "+", "?", "{3}", "{2,}", "{0,4}", "{1,9}", "{20,31}"])
ITEMS = st.lists(st.tuples(ATOMS, COUNTS).map("".join), min_size=1, max_size=6).map("".join)
PATTERNS = st.tuples(st.sampled_from(["", "^"]), ITEMS, st.sampled_from(["", "$"])).map("".join)
SOUP = st.text(st.sampled_from([*r"ab09é.^$*+?{}()[]|\,-&~dwsDbAZ:=!<P#" + "\n"]), max_size=12)


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        r"^\d{4}-\d{2}-\d{2}$",
        r"^[a-z]+@[a-z]+\.com$",
        "^https?://",
        "^x*y?z*$",
        r"^C:\\$",
    ],
)
def test_a_plain_sequence_is_matched_here(pattern):
    assert is_linear(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "^(a+)+$",
        "^a*a*$",
        "^.*x.*$",
        r"\d+$",
        "^a*?$",
        r"^(a)\1$",
        r"^\ba",
        r"^[^\s]+$",
        "^[a--b]$",
        "^[z-a]$",
        "^a{,3}$",
        "^a{99999}$",
        "*",
        "a$b",
        "^^",
        "^a\n$",
        "^" + "a" * 300,
    ],
)
def test_anything_else_is_not(pattern):
    assert not is_linear(pattern)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("^ab*c+d?[0-9]{2,}$", "ac00"),
        (r"\d{3}-\w", "000-0"),
        ("^[^0-9A-Za-z]{2}$", "  "),
        ("^(a|b)$", ""),
        ("^a{400}$", ""),
        ("[", ""),
    ],
)
def test_the_shortest_text_that_a_plain_sequence_matches(pattern, text):
    assert shortest_match(pattern) == text


@given(PATTERNS)
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_what_is_matched_here_takes_no_longer_than_the_text_is_long(pattern):
    if not is_linear(pattern):
        return
    for unit in ("a", "b", "0", "c", "é", "ab", "a0", "aaab", "0.", "b "):
        text = unit * (LENGTH // len(unit)) + "!\n!"
        started = monotonic()
        re.search(pattern, text)
        assert monotonic() - started < 5  # a quadratic one would take minutes


@given(SOUP)
@settings(max_examples=200)
def test_any_text_is_judged_and_what_is_matched_is_a_pattern_without_a_warning(pattern):
    if is_linear(pattern):
        re.purge()
        re.compile(pattern)  # a warning is an error here
