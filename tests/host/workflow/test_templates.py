import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin.host.workflow.templates import (
    Malformed,
    MissingValue,
    as_text,
    follow,
    parse,
    parse_path,
    resolve,
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def looking_in(values):
    return lambda reference: follow(values, reference.path)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("my-node.items[0].value", ("my-node", "items", 0, "value")),
        ('a["any.key here"]', ("a", "any.key here")),
        ("a['x'].y", ("a", "x", "y")),
    ],
)
def test_a_path_is_names_and_indexes(text, path):
    assert parse_path(text) == path


@pytest.mark.parametrize("text", ["", " ", ".a", "a.", "a..b", "a[", "a[x]", "a b", "VAR:-x", "a[0]b"])
def test_what_is_no_path_is_not_taken_for_one(text):
    assert parse_path(text) is None
    assert parse(f"x ${{{text}}} ${{a") == ["x ", Malformed(f"${{{text}}}"), " ", Malformed("${"), "a"]


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("$${a}", "${a}"),
        ("$${a} is ${a}", "${a} is 1"),
        ("${a.b}", None),
        ("${x} ${x}", "${y} ${y}"),  # what a template brings in is not a template again
    ],
)
def test_escapes_and_texts(text, result):
    assert resolve(text, lambda reference: {"a": 1, "x": "${y}"}.get(".".join(reference.path))) == result


@given(json_values)
def test_a_lone_template_keeps_value_and_type_and_inside_text_a_value_becomes_json(value):
    look = looking_in({"a": {"b": value}})
    assert resolve("${a.b}", look) is value
    assert resolve("<${a.b}>", look) == f"<{as_text(value)}>"


@given(st.text())
def test_any_text_can_be_written_literally(text):
    assert resolve(text.replace("${", "$${"), looking_in({})) == text


@pytest.mark.parametrize(
    ("path", "message", "reached", "available"),
    [
        (("b",), "", "", ("a", "number", "none", "yes", "long")),
        (("a", "items", 2), "", "a.items", ("[0]", "[1]")),
        (("number", "b"), "number is a number", "number", ()),
        (("long", 10_000), "", "long", ("[0]", "...", "[9999]")),
    ],
)
def test_a_missing_value_says_how_far_it_came_and_what_is_there(path, message, reached, available):
    values = {
        "a": {"items": [1, 2], "text": "t"},
        "number": 3,
        "none": None,
        "yes": True,
        "long": list(range(10_000)),
    }
    with pytest.raises(MissingValue) as caught:
        follow(values, path)
    assert message in str(caught.value)
    assert (caught.value.reached, caught.value.available) == (reached, available)


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ('{"a": [1, {"b": 2}]}', ("a", 1, "b"), 2),
        (' \n[{"a": "[3, 4]"}]\n', (0, "a", -1), 4),
        ('{"long": 0.12345678901234567890, "a": 1}', ("a",), 1),
    ],
)
def test_a_path_goes_on_into_text_that_is_json(text, path, value):
    assert follow({"t": text}, ("t", *path)) == value
    assert follow({"t": text}, ("t",)) is text


@pytest.mark.parametrize(
    "text",
    ["words", "", '"a"', "3", "null", '{"a": 1', "{a: 1}", '[NaN, {"a": 1}]', "[1e999]", "[" * 100_000 + "]"],
)
def test_a_path_ends_at_a_text_that_is_no_json_object_or_array(text):
    with pytest.raises(MissingValue, match="t is a string that is not JSON"):
        follow({"t": text}, ("t", 0))
