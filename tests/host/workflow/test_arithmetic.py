"""Numbers in expressions: what operators mean, beside the wildcards and hyphens that look like them."""

import math

import jmespath
import pytest
from hypothesis import given
from hypothesis import strategies as st
from workflow_parts import flow, step

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.workflow.expressions import parsed

VALUES = {
    "a": 7,
    "b": 2,
    "zero": 0,
    "list": [1, 2, 3],
    "text": "5",
    "nothing": None,
    "yes": True,
    "half": 0.5,
    "object": {"p": 4, "q-r": 1},
    "items": [{"size": 2}, {"size": 5}],
    "huge": 10**300,
    "infinite": math.inf,
}


def value(text):
    return parsed(text).value(VALUES, VALUES)


numbers = st.one_of(
    st.integers(0, 12).map(str), st.sampled_from(["2.5", "0.1", "a", "b", "half", "list[1]", "object.p"])
)
signs = st.builds(
    "{1}{0}{2}".format, st.sampled_from(["+", "-", "*", "/", "//", "%"]), *[st.sampled_from(["", " "])] * 2
)
formulas = st.recursive(
    numbers,
    lambda inner: st.one_of(
        st.builds("{}{}{}".format, inner, signs, inner),
        st.builds("({})".format, inner),
        st.builds("-({})".format, inner),
        numbers.map("-{}".format),
    ),
    max_leaves=12,
)


class Fields(dict):
    """Members as attributes, so that Python reads the same text."""

    __getattr__ = dict.get


@given(text=formulas)
def test_a_formula_means_what_it_means_in_python(text):
    names = {**VALUES, "object": Fields(VALUES["object"])}
    try:
        expected = eval(text, {"__builtins__": {}}, names)
    except ZeroDivisionError:
        with pytest.raises(PflowError, match="divides by zero"):
            value(text)
        return
    found = value(text)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # A minus that begins a number, and one between values.
        ("list[1:-1]", [2]),
        ("[a-1, -1, -b, 1-1, 1+2]", [6, -1, -2, 0, 3]),
        ("a - -1", 8),
        ("sort_by(items, &-size)[0].size", 5),
        # A star that is a wildcard, and one between values.
        ("object.*|[0]*2", 8),
        ("length(*) * 2", 22),
        # Comparisons bind less than arithmetic.
        ("a - 1 == 2 * 3 && b < a - 4 | @", True),
    ],
)
def test_operators_stand_beside_wildcards_and_signs(text, expected):
    found = value(text)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("text", "message", "step"),
    [
        ("text + 1", "+ takes numbers, and text is a string", "join('', [one, other])"),
        ("list + list", "+ takes numbers, and list is a list", "[one, other][]"),
        ("items[*].size * 2", "* takes numbers, and it was given a list", "map(&(size * 2), items)"),
        ("object.q-r", "- takes numbers, and object.q is null", 'in double quotes, as in "read-file"'),
        ("a / zero", "/ divides by zero: zero is 0", "[?count != 0]"),
        ("huge * huge", "the result of * is too large", ""),
    ],
)
def test_what_cannot_be_calculated_fails_with_the_operand_and_a_step(text, message, step):
    with pytest.raises(PflowError) as caught:
        value(text)
    assert message in caught.value.message
    assert step in "".join(caught.value.suggestions)
    assert "" not in caught.value.suggestions


leaves = st.sampled_from(
    ["a", "b", "c", "@", "*", "[*]", "[-1]", "[0]", "[::-1]", "[-2:]", "[]", "`-1`", "a[-1]"]
)
standard = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds("({}).*".format, inner),
        st.builds("{}.*".format, st.sampled_from(["a", "b", "a.b", "@"])),
        st.builds("{}[*]".format, st.sampled_from(["a", "b", "a.b", "@"])),
        st.builds("{} | {}".format, inner, inner),
        st.builds("[{}, {}]".format, inner, inner),
        st.builds("[{},*]".format, inner),
        st.builds("{{x:*,y:{}}}".format, inner),
        st.builds("{} || {}".format, inner, inner),
        st.builds("@[?{} == `-1`]".format, inner),
        st.builds("values(@)[?*]{}".format, st.sampled_from(["", "[-1]", ".*"])),
    ),
    max_leaves=6,
)
plain = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-2, 2), st.sampled_from(["", "x"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=8,
)


STANDARD = ("b.c", "a[*].b", "a[?b == 'x'].c", "[a, b]", "{x: a, y: b.c}", "a | b")


@given(
    text=st.one_of(standard, st.sampled_from(STANDARD)),
    values=st.dictionaries(st.sampled_from("abc"), plain, max_size=3),
)
def test_what_is_jmespath_means_what_it_means_there(text, values):
    try:
        expected = jmespath.search(text, values)
    except jmespath.exceptions.JMESPathError:
        return
    assert parsed(text).value(values, values) == expected


def checked(bench, expression, *nodes, **inputs):
    """Return the severity, message and step of each problem of a workflow with one expression."""
    last = step("last", "transform", {"expression": expression})
    found = bench.host.runner.validate(flow(*nodes, last, inputs=inputs))
    return [(it.severity, it.message, it.suggestion) for it in found if "is not used" not in it.message]


TEXT, NUMBER = {"type": "str"}, {"type": "int"}


@pytest.mark.parametrize(
    ("expression", "message", "step"),
    [
        ("'x' + 1", "+ takes numbers, not a string", "join('', [one, other])"),
        ("word * 2", "* takes numbers, not a string", "to_number(value)"),
        ("count - `[]`", "- takes numbers, not a list", "map("),
        ("-null", "- takes numbers, not null", "not_null(value, 0)"),
        ("!count + 1", "+ takes numbers, not true or false", "Take a number"),
        ("count % 0", "% divides by zero", "another number"),
        ("count + 1 == 'x'", "a number is compared with a string", ""),
    ],
)
def test_validation_names_what_can_never_be_calculated(bench, expression, message, step):
    ((severity, found, next_step),) = checked(bench, expression, word=TEXT, count=NUMBER)
    assert severity == "error"
    assert message in found
    assert step in next_step


@pytest.mark.parametrize("known", ["read-file", "fetch-2", "a-b-c"])
def test_a_name_with_a_hyphen_is_not_taken_for_a_difference(bench, known):
    node = step(known, "echo", {"message": "x"})
    found = checked(bench, f"{known}.message", node)
    assert found
    assert {severity for severity, *_ in found} == {"error"}
    assert all(f"{known} is a difference" in message for _, message, _ in found)
    assert {it[2] for it in found} == {f'Put a name with a hyphen in double quotes: "{known}"'}
    assert checked(bench, f'"{known}".message', node) == []
    found = checked(bench, "fetch.message.content-type", step("fetch", "echo", {"message": "x"}))
    assert [it[2] for it in found] == ['Put a name with a hyphen in double quotes: "content-type"']


def test_a_difference_of_known_names_is_a_difference(bench):
    inputs = dict.fromkeys(("read", "file", "read-file"), NUMBER)
    assert checked(bench, "read-file", **inputs) == []
    node = step("d", "transform", {"expression": "read-file"})
    outcome = bench.run(flow(node, inputs=inputs, outputs={"d": "${d.result}"}), **dict.fromkeys(inputs, 3))
    assert outcome.outputs == {"d": 0}
