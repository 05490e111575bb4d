"""The syntax of `${...}`."""

import pytest

from pflow_mcp_plugin.variable_references import VariableReference, malformed, references, substitute


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("${A}", (VariableReference("A"),)),
        ("x${A_1}y${B:-c d}", (VariableReference("A_1"), VariableReference("B", "c d"))),
        ("${A:-}", (VariableReference("A", ""),)),
        ("${A:-$b:-c{}", (VariableReference("A", "$b:-c{"),)),
        ("$${A} $A $ {A}", ()),
        ("$$${A}", ()),
    ],
)
def test_references_are_found_in_order(text, found):
    assert references(text) == found
    assert malformed(text) == ""


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        ("a ${} b", "${}"),
        ("${1}", "${1}"),
        ("${A", "${A"),
        ("${A:-${B}}", "${A:-${B}"),
        ("$${ ${ x}", "${ x}"),
        ("${" + "-" * 50, "${" + "-" * 20),  # only its beginning
    ],
)
def test_the_first_malformed_piece_is_shown(text, piece):
    assert malformed(text) == piece


def test_substitution_is_one_pass_and_leaves_the_rest_alone():
    assert substitute("$${A} ${A} ${B:-c} $", lambda reference: f"<${{{reference.name}}}>") == (
        "${A} <${A}> <${B}> $"
    )
