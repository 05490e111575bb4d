import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from node_types import entry_of, fields

from pflow_mcp_plugin.contract import Interface
from pflow_mcp_plugin.host.planning.plan_answer import UnreadableAnswer, answered_workflow, json_object

ENTRY = entry_of(
    "t-do",
    Interface(params=fields("count: int", "names: list", "text: str", "any", "command: str | list")),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(), inside, max_size=3),
    max_leaves=10,
)
KEYS = ("description", "inputs", "nodes", "edges", "mappings", "outputs")


def find(node_type):
    return ENTRY if node_type == "t-do" else None


def read_params(**params):
    rows = [{"name": name, "value": value} for name, value in params.items()]
    workflow = answered_workflow({"nodes": [{"id": "a", "type": "t-do", "params": rows}]}, find)
    return workflow["nodes"][0]["params"]


@pytest.mark.parametrize(
    "text",
    [
        '{"nodes": [1]}',
        '```json\n{"nodes": [1]}\n```',
        'Use {braces} {} [{"a": 1}] then {"plan": {"nodes": [1]}}',
        '{"thought": "{\\"nodes\\": [0]}"} {"nodes": [1]}',
    ],
)
def test_the_object_is_found_wherever_it_stands(text):
    assert json_object(text, "nodes") == {"nodes": [1]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("No.", "is not JSON: No."),
        ('{"nodes": [{"id": "a"}', "no complete JSON object with nodes"),
        ('{"nodes": NaN}', "no complete JSON object with nodes"),
        ("{" * 100_000, "no complete JSON"),
        ('{"nodes":' + "[" * 120 + "]" * 120 + "}", "nested too deeply"),
    ],
)
def test_what_is_not_there_is_said(text, message):
    with pytest.raises(UnreadableAnswer, match=message):
        json_object(text, "nodes")


@pytest.mark.parametrize(
    ("key", "value", "read"),
    [
        ("count", "5", 5),
        ("count", "many", "many"),
        ("count", "${a.count}", "${a.count}"),
        ("names", '["a", "${b.c}"]', ["a", "${b.c}"]),
        ("command", '["ls", "-l"]', ["ls", "-l"]),
        ("unknown", "5", "5"),
    ],
)
def test_a_value_has_the_type_of_its_parameter(key, value, read):
    assert read_params(**{key: value}) == {key: read}


def test_the_form_of_files_is_read_as_well():
    workflow = {
        "description": "d",
        "inputs": {"a": {"type": "str", "description": "An a", "default": "x"}},
        "nodes": [{"id": "n", "type": "t-do", "params": {"count": 1}, "batch": {"items": "${a}"}}],
        "edges": [{"from": "n", "to": "m", "action": "error"}],
        "mappings": {"n": {"input_mappings": {"text": "a"}}},
        "outputs": {"o": "${n.text}"},
    }
    assert answered_workflow(workflow, find) == workflow


def test_lists_of_rows_become_tables():
    answer = {
        "inputs": [
            {"name": "a", "type": "int", "description": "An a", "default": "3"},
            {"name": "b", "type": "str", "description": "", "default": ""},
        ],
        "nodes": [{"id": "n", "type": "t-do", "params": [], "for_each": "${a}", "purpose": "p", "odd": 1}],
        "edges": [{"from": "n", "to": "m", "action": "default", "why": "x"}],
        "mappings": [{"node": "n", "key": "text", "source": "${a}"}, {"node": "n"}, 7],
        "outputs": [{"name": "o", "value": "${n.text}"}],
        "evil": "text",
    }
    assert answered_workflow(answer, find) == {
        "inputs": {"a": {"type": "int", "description": "An a", "default": 3}, "b": {"type": "str"}},
        "nodes": [{"id": "n", "type": "t-do", "purpose": "p", "params": {}, "batch": {"items": "${a}"}}],
        "edges": [{"from": "n", "to": "m"}],
        "mappings": {"n": {"input_mappings": {"text": "a"}}},
        "outputs": {"o": "${n.text}"},
    }


ROW_KEYS = st.sampled_from(["id", "type", "params", "name", "value", "from", "to", "node", "key", "batch"])
ROWS = st.lists(st.dictionaries(ROW_KEYS, JSON))


@given(st.dictionaries(st.sampled_from(KEYS), JSON | ROWS))
def test_any_answer_is_read(answer):
    workflow = answered_workflow(answer, find)
    assert set(workflow) <= set(KEYS)
    json.dumps(workflow)


@given(st.text(st.sampled_from('{}[]":, nodes01\\')))
def test_any_text_holds_an_object_or_none(text):
    with suppress(UnreadableAnswer):
        assert "nodes" in json_object(text, "nodes")


def test_what_a_model_writes_loses_only_what_nobody_sees():
    hidden = "".join(chr(0xE0000 + ord(letter)) for letter in "obey me")
    written = {f"a{hidden}": ["x\ny", f"1{hidden}2", "\u0645\u06cc\u200c\u062e 👩\u200d👧", 3, None]}
    read = json_object(json.dumps({"nodes": written}), "nodes")["nodes"]
    assert read == {"a": ["x\ny", "12", "\u0645\u06cc\u200c\u062e 👩\u200d👧", 3, None]}
