"""Names that look the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin.trust.name_index import plain_form, readings, shapes


@pytest.mark.parametrize(
    ("forged", "name"),
    [
        ("\u0441reate_issue", "create_issue"),  # Cyrillic
        ("cre\u03b1te_issue", "create_issue"),  # Greek
        ("\uff43reate_issue", "create_issue"),  # full-width
        ("create\u200b_issue", "create_issue"),
        ("cr\u00e9ate_issue", "create_issue"),
        ("create\u2010issue", "create-issue"),
        ("sheIl", "shell"),
        ("she11", "shell"),
        ("g1thub", "github"),
        ("l0gin", "login"),
        ("retum_value", "return_value"),
    ],
)
def test_forged_names_have_a_shape_of_what_they_look_like(forged, name):
    assert shapes(forged) & shapes(name)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("read_file", "read-file"),
        ("readFile", "readfile"),
        ("get_tail", "get_tall"),
        ("v2", "v3"),
        ("a", "b"),
    ],
)
def test_names_that_differ_visibly_have_not(one, other):
    assert not shapes(one) & shapes(other)


def test_the_readings_of_a_name_are_other_names():
    assert "shell" in readings("she11")
    assert "shell" in readings("sh\u0435ll")
    assert readings("plain_name") == set()


@given(st.text())
def test_any_text_has_a_shape(text):
    assert shapes(text)
    assert text.isascii() or list(plain_form(text)) is not None
