import pytest
from workflow_parts import flow, step

from pflow_mcp_plugin.contract import Field, Interface, Runner

ISSUE = {"type": "object", "properties": {"id": {"type": "integer"}, "tags": {"type": "array"}}}


@pytest.fixture
def interface(bench):
    bench.declare(
        "t-make",
        params=["title: str"],
        outputs=["url: str", "count: int | None", Field(key="issue", type="dict", schema=ISSUE), "odd: file"],
    )

    def interface(outputs=None, **parts):
        nodes = [step("make", "t-make", {"title": "x"})]
        workflow = {"nodes": nodes, "outputs": outputs or {}, **parts}
        return bench.host.runner.interface(workflow)

    return interface


def types(interface):
    return {field.key: field.type for field in interface.outputs}


def test_an_output_has_the_type_of_what_its_template_names(interface):
    named = {
        "url": ("${make.url}", "str"),
        "count": ("${make.count}", "int | None"),
        "id": ("${make.issue.id}", "int"),
        "tags": ({"source": "${make.issue.tags}", "description": "Its tags"}, "list"),
        "text": ("See ${make.url} (${make.count})", "str"),
        "all": ("${make}", "dict"),
        "inside": ("${make.url.parts}", "any"),
        "odd": ("${make.odd}", "any"),
    }
    found = interface({key: source for key, (source, _) in named.items()})
    assert types(found) == {key: kind for key, (_, kind) in named.items()}
    assert found.outputs[3].description == "Its tags"
    assert found.outputs[2].schema == {"type": "integer"}


def test_an_output_of_an_input_may_be_none_where_the_input_may(interface):
    text = {"type": "str"}
    inputs = {"given": text, "optional": {**text, "required": False}, "filled": {**text, "default": "x"}}
    found = interface({name: f"${{{name}}}" for name in inputs}, inputs=inputs)
    assert types(found) == {"given": "str", "optional": "str | None", "filled": "str"}


def test_the_outputs_of_a_batch_are_lists_and_counts(interface):
    nodes = [step("make", "t-make", batch={"items": ["a", "b"], "as": "it"})]
    found = interface({"all": "${make.results}", "done": "${make.succeeded}"}, nodes=nodes)
    assert types(found) == {"all": "list", "done": "int"}
    assert found.outputs[0].schema is None


def test_a_template_that_may_stay_as_text_has_no_type(interface):
    assert types(interface({"url": "${make.url}"}, template_resolution_mode="permissive")) == {"url": "any"}


def test_without_outputs_those_of_the_last_node_are_open(interface):
    assert interface().open_outputs is True
    assert interface({"url": "${make.url}"}).open_outputs is False


def test_a_host_that_says_no_more_has_the_declared_inputs_and_any_outputs():
    workflow = flow(inputs={"a": {"type": "int", "default": 1}, "b": {}}, outputs={"c": "${a}"})
    assert Runner.interface(object(), workflow) == Interface(
        params=(Field(key="a", type="int", schema={"default": 1}), Field(key="b", required=True)),
        outputs=(Field(key="c"),),
        inputs=("a", "b"),
    )
