import attrs
import pytest
from node_types import entry_of, fields

from pflow_mcp_plugin.contract import Field, Interface
from pflow_mcp_plugin.host.planning.joins import (
    Output,
    join_by_name,
    join_by_type,
    outputs_of,
    result_of,
    template_name,
)


def field(text, **more):
    return attrs.evolve(*fields(text), **more)


def output(text, node="a", family="one"):
    found = field(text)
    return Output(node_id=node, family=family, field=found, template=f"${{{node}.{found.key}}}")


def entry(*outputs, **interface):
    return entry_of("t-n", Interface(outputs=fields(*outputs), **interface))


@pytest.mark.parametrize(
    ("given", "wanted", "is_joined"),
    [
        ("issue_number:int", field("issueNumber:int"), True),
        ("result", field("text:str"), True),  # a synonym
        ("count:int", field("count:str"), True),
        ("result", field("city:str"), False),  # another name
        ("result", field("rows:list"), False),  # a synonym says nothing about the type of any value
        ("text:str", field("text:int"), False),  # only some strings are numbers
        ("result", field("commit_message:str"), False),
        # Neither a choice nor a command line is taken from a node.
        ("text:str", field("text:str", schema={"enum": ["a"]}), False),
        ("text:str", field("text:str", shell_line=True), False),
    ],
)
def test_an_output_is_joined_to_an_input_of_its_name_or_of_a_synonym_if_it_fits(given, wanted, is_joined):
    found = join_by_name(wanted, "one", [output(given)])
    assert (found and found.field.key) == (field(given).key if is_joined else None)


def test_names_that_say_little_are_joined_within_a_family_only():
    assert join_by_name(field("id:str"), "one", [output("id:str")])
    assert join_by_name(field("id:str"), "two", [output("id:str")]) is None


def test_the_same_name_is_preferred_but_the_nearest_text_is_the_one_to_go_on_with():
    near, far = [output("result", "near"), output("link:str", "near")], [output("url:str", "far")]
    assert join_by_name(field("url:str"), "one", [*near, *far]).node_id == "far"
    texts = [output("answer:str", "near"), output("content:str", "far")]
    assert join_by_name(field("content:str"), "one", texts).node_id == "near"


def test_a_type_joins_where_only_one_input_could_be_meant():
    numbers = output("total:list")
    assert join_by_type([field("items:list"), field("title:str")], numbers).key == "items"
    assert join_by_type([field("items:list"), field("more:list")], numbers) is None
    assert join_by_type([field("city:str")], output("result:str")) is None


def test_the_result_of_a_node_stands_first_and_its_error_is_no_output():
    found = outputs_of("n", entry("size", "text", "error", result="text"))
    assert [it.template for it in found] == ["${n.text}", "${n.size}"]
    assert result_of("n", entry("text", "error")).template == "${n.text}"
    assert result_of("n", entry("a", "b")) is None


@pytest.mark.parametrize(
    ("key", "template"), [("a b", '${n["a b"]}'), ('a"b', "${n['a\"b']}"), ("", '${n[""]}'), ("a}b", None)]
)
def test_an_output_of_any_name_is_named_by_a_template_if_one_can(key, template):
    found = outputs_of("n", entry(Field(key=key)))
    assert [it.template for it in found] == ([template] if template else [])


@pytest.mark.parametrize(
    ("key", "name"), [("file_path", "file_path"), ("a b.c", "a_b_c"), ("-x_", "x"), ("??", "value")]
)
def test_a_name_for_templates_has_letters_digits_hyphens_and_underscores_only(key, name):
    assert template_name(key, "value") == name
    assert len(template_name("x" * 1000, "value")) == 100
