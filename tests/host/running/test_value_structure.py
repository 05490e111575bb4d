from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin.host.running.value_excerpt import sampled
from pflow_mcp_plugin.host.workflow.templates import follow, parse_path

keys = st.text(max_size=4) | st.sampled_from(["a", "0", "-1", 'a"b', "a'b", "{", "a b", ""])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.sampled_from(['{"a": [1]}', "[{}]"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=12,
)


def structure(value):
    return [(place.path, place.type) for place in sampled(value, lambda sample: sample)]


def test_every_path_has_a_sample_of_what_is_there():
    value = {"a": {"b": "x" * 200}, "n": 1.5, "l": [None, True], "t": (7,), "j": '{"k": 1}'}
    found = sampled(value, lambda sample: sample)
    assert [(place.path, place.type, place.sample) for place in found] == [
        ("a", "dict", None),
        ("a.b", "str", "x" * 100 + "..."),
        ("n", "float", 1.5),
        ("l", "list", None),
        ("l[0]", "None", None),
        ("l[1]", "bool", True),
        ("t", "list", None),
        ("t[0]", "int", 7),
        ("j", "str", '{"k": 1}'),
        ("j.k", "int", 1),
    ]


def test_items_of_another_shape_stand_at_their_own_index():
    value = {
        "rows": [{"id": 1}, {"id": 2}, {"id": "x", "more": 1.5}, {"other": 2.5}, {"id": "y"}, None, {"id": 3}]
    }
    assert structure(value) == [
        ("rows", "list"),
        ("rows[0]", "dict"),
        ("rows[0].id", "int"),
        ("rows[2]", "dict"),
        ("rows[2].id", "str"),
        ("rows[2].more", "float"),
        ("rows[3]", "dict"),
        ("rows[3].other", "float"),
        ("rows[5]", "None"),
    ]


def test_a_key_that_no_template_can_spell_is_left_out():
    value = {"a": {'say "x"': 1, "it's": 2, "\"'": {"b": 1}, "{x}": 3, 4: 5}}
    assert structure(value) == [("a", "dict"), ("a['say \"x\"']", "int"), ('a["it\'s"]', "int")]


@given(json_values)
def test_every_path_is_one_that_a_template_takes(value):
    for path, kind in structure({"v": value}):
        steps = parse_path(path)
        assert steps is not None
        found = follow({"v": value}, steps)
        assert kind == {"NoneType": "None"}.get(type(found).__name__, type(found).__name__)


def test_what_lies_very_deep_is_left_out():
    value = 1
    for _ in range(5_000):
        value = {"x": value}
    assert len(structure(value)) == 20
