import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin.host.running.value_excerpt import LONGEST_TEXT, Excerpt, ValueFiles, is_larger, sampled
from pflow_mcp_plugin.host.workflow.templates import follow, parse_path
from pflow_mcp_plugin.redaction import Redactor

SECRET = "hunter2hunter2"
FILE = re.compile(r"whole in (\S+\.(?:txt|json))")


@pytest.fixture
def excerpt(tmp_path):
    def make(value, budget=10_000, secrets=(), **options):
        redactor = Redactor(secrets)
        shown = Excerpt(redactor, budget, ValueFiles(tmp_path / "files", redactor), **options).of(value)
        return shown, [Path(path) for path in dict.fromkeys(FILE.findall(json.dumps(shown)))]

    return make


def test_a_long_text_is_cut_and_names_the_private_file_that_holds_it(excerpt):
    text = "grüße\n" * 1000
    shown, (file,) = excerpt({"a": {"b": [text]}})
    assert shown["a"]["b"][0] == f"{text[:LONGEST_TEXT]}... (6,000 characters), whole in {file}"
    assert file.read_text(encoding="utf-8") == text
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_what_repeats_other_members_has_no_file(excerpt):
    results = [{"n": n} for n in range(5000)]
    value = {"results": results, "count": 5000, "items": [{"result": it} for it in results]}
    _, files = excerpt(value, repeated="items")
    assert [json.loads(file.read_text()) for file in files] == [results, {"count": 5000}]
    assert excerpt({"items": results}, repeated="items")[1] == []


def test_the_files_hide_secrets_that_were_known_and_those_that_become_known(tmp_path):
    redactor = Redactor([SECRET])
    files = ValueFiles(tmp_path, redactor)
    value = [SECRET + "x" * 5000 + "another secret"]
    Excerpt(redactor, 10_000, files).of(value)
    (file,) = tmp_path.iterdir()
    assert file.read_text() == "***" + "x" * 5000 + "another secret"
    redactor.add(["another secret"])
    files.redact_again()
    assert file.read_text() == "***" + "x" * 5000 + "***"


def test_a_file_that_a_node_named_is_the_one(excerpt, tmp_path):
    redactor = Redactor()
    files = ValueFiles(tmp_path / "files", redactor)
    files.name("x" * 5000, tmp_path / "theirs.png")
    shown = Excerpt(redactor, 10_000, files).of({"data": "x" * 5000})
    assert shown["data"].endswith(f"whole in {tmp_path}/theirs.png")
    assert not (tmp_path / "files").exists()


def test_without_room_on_the_disk_the_value_is_shown_all_the_same(tmp_path):
    (tmp_path / "files").write_text("in the way")
    redactor = Redactor()
    shown = Excerpt(redactor, 10_000, ValueFiles(tmp_path / "files", redactor)).of("x" * 5000)
    assert shown == "x" * LONGEST_TEXT + "... (5,000 characters)"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.text(max_size=3000),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=300), inner),
        max_leaves=30,
    ),
    st.integers(0, 3000),
)
def test_an_excerpt_is_json_of_about_the_size_of_its_budget(value, budget):
    shown = json.dumps(Excerpt(Redactor(), budget).of(value), ensure_ascii=False)
    assert len(shown) < 40 * (budget + 500)
    assert is_larger(value, 10**9) is False
    if not is_larger(value, min(budget, 150)):
        assert json.loads(shown) == json.loads(json.dumps(value))


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
