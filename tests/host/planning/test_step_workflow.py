from __future__ import annotations

import attrs
import pytest

from pflow_mcp_plugin.contract import Field
from pflow_mcp_plugin.host.planning.clause_steps import Step, match_of
from pflow_mcp_plugin.host.planning.step_workflow import step_workflow


@pytest.fixture
def compose(office):
    """Make the workflow of steps, each a node, perhaps with its clause and values; check that it is valid."""

    def step(node, clause="", **given):
        entry = office.registry.get(node)
        return Step(match=match_of(entry, 0.5), clause=clause, given=given)

    def compose(*steps):
        workflow = step_workflow(
            [step(it) if isinstance(it, str) else step(*it[:2], **it[2]) for it in steps]
        )
        assert office.runner.validate(workflow) == ()
        return workflow

    return compose


def params(workflow):
    return [node["params"] for node in workflow["nodes"]]


def test_what_is_left_open_is_a_declared_input_with_the_description_of_the_parameter(compose):
    workflow = compose("t-fetch-page")
    assert workflow["inputs"] == {"url": {"type": "str", "description": "The address of the page"}}
    assert params(workflow) == [{"url": "${url}"}]


def test_what_stands_in_the_task_is_the_default_of_an_input(compose):
    workflow = compose(("t-search-code", "", {"query": "a ${b}", "language": "C"}))
    assert workflow["inputs"]["query"]["default"] == "a ${b}"
    assert workflow["inputs"]["language"] == {
        "type": "str",
        "description": "language of t-search-code",
        "default": "C",
    }


def test_parameters_that_are_not_needed_are_left_alone(compose):
    assert {*compose("t-roll-dice")["inputs"]} == {"sides"}


def test_nodes_share_an_input_that_means_the_same_to_them(compose):
    workflow = compose("t-create-issue", "t-close-issue")
    assert {*workflow["inputs"]} == {"repo", "title"}
    assert params(workflow)[1] == {"repo": "${repo}", "number": "${t-create-issue.number}"}


def test_nodes_of_a_family_share_an_input_that_nobody_describes(bench, compose):
    bench.declare("t-list", ["folder: str!"])
    bench.declare("t-count", ["folder: str!"])
    assert {*compose("t-list", "t-count")["inputs"]} == {"folder"}
    bench.known["t-count"] = attrs.evolve(bench.known["t-count"], family="other")
    assert {*compose("t-list", "t-count")["inputs"]} == {"folder", "t_count_folder"}


def test_a_value_for_one_of_them_counts_for_both(compose):
    workflow = compose("t-fetch-page", ("t-screenshot-page", "", {"url": "https://x.org"}))
    assert workflow["inputs"]["url"]["default"] == "https://x.org"
    assert params(workflow) == [{"url": "${url}"}, {"url": "${url}"}]


def test_nodes_with_different_values_have_an_input_each(compose):
    workflow = compose(
        ("t-fetch-page", "", {"url": "https://a.org"}), ("t-fetch-page", "", {"url": "https://b.org"})
    )
    assert [node["id"] for node in workflow["nodes"]] == ["t-fetch-page", "t-fetch-page-2"]
    assert params(workflow) == [{"url": "${url}"}, {"url": "${t_fetch_page_2_url}"}]


def test_a_file_that_is_read_is_not_the_one_that_is_written(compose):
    workflow = compose("read-file", "write-file")
    assert params(workflow)[1] == {"file_path": "${write_file_file_path}", "content": "${read-file.content}"}


def test_no_node_takes_an_input_that_is_not_meant_for_it(bench, compose):
    bench.declare("t-list", ["size: int!", "query: str"])
    workflow = compose("t-search-code", "t-list")
    assert params(workflow)[0] == {"query": "${t_search_code_query}"}


def test_the_model_is_told_the_clause_and_every_result_that_no_node_has_used(compose):
    workflow = compose("t-weather", "t-fetch-page", ("llm", "compare ${both}", {}))
    prompt = params(workflow)[2]["prompt"]
    assert prompt == "compare $${both}\n\n${t-weather.result}\n\n${t-fetch-page.result}"


def test_a_model_at_the_beginning_is_asked_what_the_clause_says(compose):
    workflow = compose(("llm", "translate hello", {}))
    assert workflow["inputs"]["prompt"]["default"] == "translate hello"


def test_a_model_that_is_told_a_text_is_not_told_the_results_too(compose):
    workflow = compose("t-weather", ("llm", 'translate "hello"', {}))
    assert workflow["inputs"]["prompt"]["default"] == 'translate "hello"'
    assert {*workflow["outputs"]} == {"result", "t-weather"}


def test_a_command_line_is_a_constant_and_an_open_command_a_list(compose):
    workflow = compose(("shell", "", {"command": "echo ${HOME}"}))
    assert params(workflow) == [{"command": "echo $${HOME}"}]
    assert compose("shell")["inputs"]["command"]["type"] == "list"


def test_a_command_reads_what_the_node_before_found(compose):
    workflow = compose("read-file", ("shell", "", {"command": "sort"}))
    assert params(workflow)[1] == {"command": "sort", "stdin": "${read-file.content}"}


@pytest.mark.parametrize(
    ("clause", "city"), [("its weather", "${t-fetch-page.result}"), ("weather", "${city}")]
)
def test_the_only_open_input_takes_the_result_that_the_words_refer_to(compose, clause, city):
    assert params(compose("t-fetch-page", ("t-weather", clause, {})))[1] == {"city": city}


def test_every_result_that_no_node_uses_is_an_output_the_last_one_is_the_result(compose):
    outputs = compose("t-weather", "t-fetch-page", ("llm", "sum it up", {}), "t-roll-dice")["outputs"]
    assert {name: it["source"] for name, it in outputs.items()} == {
        "result": "${t-roll-dice.result}",
        "llm": "${llm.response}",
    }


def test_a_node_without_a_result_gives_all_it_writes(bench, compose):
    bench.declare("t-pair", outputs=["a", "b"])
    assert compose("t-pair")["outputs"] == {"result": {"source": "${t-pair}"}}


def test_choices_are_named_in_the_description(bench, compose):
    color = Field(key="color", type="str", required=True, schema={"enum": ["red", "green"]})
    bench.declare("t-paint", [color])
    assert compose("t-paint")["inputs"]["color"]["description"] == "color of t-paint; one of red, green"


def test_a_key_that_no_param_may_have_is_mapped(bench, compose):
    bench.declare("t-odd", ["__token__: str!"])
    workflow = compose("t-odd")
    assert workflow["mappings"] == {"t-odd": {"input_mappings": {"__token__": "token"}}}
    assert params(workflow) == [{}]


def test_a_key_that_no_param_may_have_is_not_joined(bench, compose):
    bench.declare("t-one", outputs=["total: int"])
    bench.declare("t-two", ["__token__: str!"])
    assert params(compose("t-one", "t-two")) == [{}, {}]


def test_keys_and_types_of_any_kind_become_inputs_that_templates_can_name(bench, compose):
    bench.declare("t odd!", [Field(key="a b", type="Widget", required=True), Field(key="a.b", required=True)])
    bench.known["t odd!"] = attrs.evolve(bench.known["t odd!"], node="t-odd")
    bench.known["t-odd"] = bench.known.pop("t odd!")
    workflow = compose("t-odd")
    assert workflow["inputs"]["a_b"]["type"] == "any"
    assert params(workflow) == [{"a b": "${a_b}", "a.b": "${t_odd_a_b}"}]


def test_a_node_that_needs_nothing_is_told_what_to_look_for(bench, compose):
    bench.declare("t-notes", ["limit: int", "query: str"])
    assert compose("t-notes")["inputs"]["query"]["required"] is False
