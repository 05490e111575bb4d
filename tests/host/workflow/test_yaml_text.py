import json
import re
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.workflow.workflow_text import YamlText, json_places, load_workflow, to_yaml


def loaded(text):
    return load_workflow(text, "wf.yaml")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"), ("on", "on"), ("2024-01-31", "2024-01-31"), ("007", "007"), ("0x1F", "0x1F"),
        ("1:30", "1:30"), ("1_000", "1_000"), ("12", 12), ("-1.5e3", -1500.0), ("true", True), ("~", None),
        ("", None), ("'12'", "12"), ("!!str 12", "12"), ("|\n  two\n  lines", "two\nlines\n"),
    ],
)  # fmt: skip
def test_values_are_those_of_json(text, value):
    assert loaded(f"a: {text}\n") == {"a": value}


QUOTES = 'Put quotes around what has ${...} in line 2: "${name}"'


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("a:\n  - {b: ${x}, c: 'd'}\n", QUOTES),
        ("a: 1\nb: [${x}]\n", QUOTES),
        ("a: 1\nb: ${x}: y\n", QUOTES),
        ("a: [\"${x}\", '${y}' b]\n", "Fix line 1 of wf.yaml"),  # these templates are not to blame
        ("a:\n\t- b\n", "Replace the tabs in line 2 by spaces: YAML is indented with spaces only"),
        ("a:\n  - b\n\t c: d\n", "Replace the tabs in line 3 by spaces: YAML is indented with spaces only"),
    ],
)
def test_of_a_mistake_its_likely_cause_is_named_with_its_line(text, step):
    with pytest.raises(PflowError, match="not valid YAML") as caught:
        loaded(text)
    assert caught.value.suggestions == (step,)


def test_keys_are_strings_and_aliases_repeat_a_value():
    text = "1: &x [a, {on: 2}]\ntrue: *x\nnull: &y z\nw: *y\n"
    assert loaded(text) == {"1": ["a", {"on": 2}], "true": ["a", {"on": 2}], "null": "z", "w": "z"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: 1\n---\nb: 2", "more than one document at line 2, column 1"),
        ("a: !!python/object:os.system x", "tags such as tag:yaml.org,2002:python/object:os.system"),
        ("a: !!timestamp 2024-01-31", "are not supported at line 1, column 4"),
        ("a: &x 1\n<<: *x", "merge keys (<<) are not supported at line 2, column 1"),
        ("[a, b]: 1", "a key must be a string at line 1, column 1"),
        ("a: &x [*x]", "*x refers to no earlier anchor"),
        ("&a x: 1\n*a : 2", "*a refers to no earlier anchor"),
        ("a: .inf", ".inf is not a JSON value at line 1, column 4"),
        ("a: 1e999", "too large a number"),
        (f"a: {'9' * 5000}", "a whole number of 5,000 digits"),
        ("[" * 200, "nested deeper than 100 levels"),
        ("- 1", "a workflow is a JSON object, this is a list"),
        ("a: \x00", "not valid YAML"),
        ("a:\n  b: 1\n  b: 2\n", "$.a.b: Duplicate key b in $.a"),
    ],
)
def test_what_json_has_no_form_for_is_refused_with_its_place(text, reason):
    with pytest.raises(PflowError) as caught:
        loaded(text)
    assert reason in caught.value.message
    assert caught.value.kind == "validation"
    place = re.search(r" at line (\d+), column (\d+)$", reason)
    assert not place or place.groups() == (
        str(caught.value.details["line"]),
        str(caught.value.details["column"]),
    )


def test_aliases_that_multiply_are_refused_at_once():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    began = time.perf_counter()
    with pytest.raises(PflowError, match="more than 500,000 values, those of aliases included"):
        loaded("\n".join(lines))
    assert time.perf_counter() - began < 5


keys = st.text(alphabet='abc_-$. é"\\', max_size=4)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.text(alphabet="ab:-#&*!|>'\"\n\t é1", max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=12,
)


@given(value=st.dictionaries(keys, values, max_size=4), indent=st.sampled_from([None, 2]))
def test_json_is_the_same_document_with_the_same_places(value, indent):
    text = json.dumps(value, indent=indent)
    read = YamlText(text, "wf.yaml")
    assert read.value == value
    assert read.places == json_places(text)


@given(text=st.text(alphabet="ab:-[]{}&*!|>'\"# \n\t<?,~1.", max_size=40))
def test_any_text_is_a_value_or_one_of_our_errors(text):
    with suppress(PflowError):
        json.dumps(YamlText(text, "wf.yaml").value)


_ODD = ["1e3", "yes", "007", "2024-01-31", "~", "a\nb\n", "a \nb", ".5", "0x1", "1_0", "- a"]


@given(value=st.text() | st.sampled_from(_ODD) | st.floats(allow_nan=False, allow_infinity=False) | values)
def test_yaml_that_is_written_is_read_as_the_same_value(value):
    for whole in (value, {"a": [value]}):
        assert YamlText(to_yaml(whole), "wf.yaml").value == whole
