from pflow_mcp_plugin.host.workflow import bind_inputs
from pflow_mcp_plugin.host.workflow.document_reader import read_document
from pflow_mcp_plugin.host.workflow.findings import Findings

WORKFLOW = {
    "inputs": {
        "text": {"type": "str", "description": "what to say"},
        "count": {"type": "integer", "default": "3"},
        "ratio": {"type": "number", "required": False},
        "loud": {"type": "bool", "required": False},
        "tags": {"type": "array", "required": False},
        "more": {"type": "dict", "required": False},
        "maybe": {"type": "int | None", "default": None},
        "free": {"required": False, "stdin": True},
    }
}


def bind(workflow, **given):
    return bind_inputs(read_document(workflow, Findings()), given)


def test_texts_and_other_values_are_read_in_the_declared_types():
    texts = {"text": "3", "count": "4", "ratio": " 0.5", "loud": "True", "tags": '["a", 1]'}
    values, problems = bind(WORKFLOW, **texts, more='{"a": null}', maybe="null", free="7")
    assert problems == []
    read = {"text": "3", "count": 4, "ratio": 0.5, "loud": True, "tags": ["a", 1], "more": {"a": None}}
    assert values == {**read, "maybe": None, "free": "7"}
    anything = object()
    values, problems = bind(WORKFLOW, text=3, count=4.0, ratio=1, tags=["a"], maybe=None, free=anything)
    assert problems == []
    assert values == {"text": "3", "count": 4, "ratio": 1.0, "tags": ["a"], "maybe": None, "free": anything}


def test_every_text_that_does_not_fit_is_named_with_how_to_write_it():
    _, problems = bind(WORKFLOW, text="", count="many", tags="a,b", loud="yes")
    assert [problem.path for problem in problems] == ["$.inputs.count", "$.inputs.loud", "$.inputs.tags"]
    assert problems[0].message == 'Input count must be integer, got str "many"'
    assert problems[0].suggestion == "Write a whole number in digits, such as 12"
    assert problems[1].suggestion == "Write true or false"
    assert problems[2].suggestion == "Write it as JSON, tags='[...]'"


def test_a_default_of_null_is_none_where_the_type_does_not_take_it():
    inputs = {"a": {"type": "int", "default": None}, "b": {"type": "int | None", "default": None}}
    assert bind({"inputs": inputs | {"c": {"default": None}}}) == ({"b": None, "c": None}, [])


def test_unknown_and_missing_inputs_are_problems():
    _, problems = bind(WORKFLOW, txt="x")
    assert [(problem.message, problem.suggestion) for problem in problems] == [
        ("The workflow has no input txt", "Did you mean text?"),
        ("Input text is required (what to say)", "Pass text=..."),
    ]


def test_without_namespacing_what_is_not_declared_may_be_given_but_nothing_reserved():
    workflow = {"enable_namespacing": False}
    assert bind(workflow, query="x") == ({"query": "x"}, [])
    assert len(bind(workflow, __run__="x")[1]) == 1
