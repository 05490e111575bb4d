from __future__ import annotations

from pflow_mcp_plugin.host.cli.structure import structure


def test_every_path_has_its_type():
    value = {"user": {"name": "Ann", "age": 3, "tags": ["a", "b"], "none": None}, "ok": True}
    assert structure(value) == [
        ("user", "dict"),
        ("user.name", "str"),
        ("user.age", "int"),
        ("user.tags", "list"),
        ("user.tags[0]", "str"),
        ("user.none", "None"),
        ("ok", "bool"),
    ]


def test_items_that_differ_join_their_types():
    value = {"rows": [{"id": 1}, {"id": "x", "more": 1.5}, None]}
    assert structure(value) == [
        ("rows", "list"),
        ("rows[0]", "dict | None"),
        ("rows[0].id", "int | str"),
        ("rows[0].more", "float"),
    ]


def test_a_key_that_is_no_name_is_quoted_as_templates_do():
    assert structure({"a": {"b c": 1}}) == [("a", "dict"), ('a["b c"]', "int")]


def test_what_lies_very_deep_is_left_out():
    value: object = 1
    for _ in range(5_000):
        value = {"x": value}
    assert len(structure(value)) == 20
