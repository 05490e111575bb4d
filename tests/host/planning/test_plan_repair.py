import pytest

from pflow_mcp_plugin.contract import Field
from pflow_mcp_plugin.host.planning.plan import Origin
from pflow_mcp_plugin.host.planning.plan_repair import PlanRepair

ORIGIN = Origin("say what you find", [])


@pytest.fixture
def types(bench):
    bench.declare(
        "t-find", [Field(key="topic", type="str", required=True, description="What")], ["hits: list"]
    )
    bench.declare("t-say", ["channel: str!", "text: str!", "volume: int"], ["posted: str"])
    bench.declare("t-sum", ["hits: list!"], ["summary: str", "length: int"], result="summary")
    bench.declare("t-run", [Field(key="command", required=True, shell_line=True)], ["stdout: str"])
    return bench.host


def node(id_, type_, **params):
    return {"id": id_, "type": type_, "params": params}


def sound(host, repair):
    assert [it for it in host.runner.validate(repair.workflow) if it.severity == "error"] == []
    return repair.workflow


CHAIN = (node("find", "t-find", topic="cats"), node("sum", "t-sum"), node("say", "t-say", channel="a"))


def test_the_result_of_the_node_before_comes_before_a_name_further_away(types):
    nodes = [
        node("read", "read-file", file_path="a.txt"),
        node("ask", "llm", prompt="Sum up ${read.content}"),
        node("write", "write-file", file_path="b.txt"),
    ]
    edges = [
        {"from": "read", "to": "ask"},
        {"from": "ask", "to": "write"},
        {"from": "read", "to": "write", "action": "error"},
    ]
    repair = PlanRepair({"nodes": nodes, "edges": edges}, types.registry, ORIGIN)
    repair.map_lacking()
    assert sound(types, repair)["mappings"] == {"write": {"input_mappings": {"content": "ask.response"}}}


def test_the_file_that_was_read_is_never_the_one_that_is_written(types):
    nodes = [
        node("read", "read-file", file_path="a.txt"),
        node("write", "write-file", content="${read.content}"),
    ]
    repair = PlanRepair({"nodes": nodes}, types.registry, ORIGIN)
    repair.map_lacking()
    assert "mappings" not in repair.workflow


def test_what_a_node_uses_already_is_not_mapped(types):
    used = node("say", "t-say", text="${sum.summary}")
    repair = PlanRepair({"nodes": [*CHAIN[:2], used]}, types.registry, ORIGIN)
    repair.map_lacking()
    assert "say" not in repair.workflow["mappings"]


def test_an_undeclared_name_becomes_an_input_described_by_its_parameter(types):
    workflow = {
        "nodes": [node("find", "t-find", topic="${subject}"), node("s", "t-sum", hits="${find.hits}")]
    }
    repair = PlanRepair(workflow, types.registry, ORIGIN)
    repair.join()
    assert sound(types, repair)["inputs"] == {"subject": {"type": "str", "description": "What"}}
    assert "inputs" not in workflow


def test_the_bare_name_of_an_output_gets_its_node(types):
    nodes = [
        CHAIN[0],
        node("s", "t-sum", hits="${hits}"),
        node("say", "t-say", channel="a", text="${length}"),
    ]
    repair = PlanRepair({"nodes": nodes}, types.registry, ORIGIN)
    repair.join()
    assert sound(types, repair)["nodes"][1]["params"] == {"hits": "${find.hits}"}
    assert repair.workflow["nodes"][2]["params"]["text"] == "${s.length}"


@pytest.mark.parametrize("template", ["${fimd.hits}", "${findd}", "${nowhere.hits}", "${"])
def test_a_misspelt_name_stays_for_the_check(types, template):
    repair = PlanRepair({"nodes": [CHAIN[0], node("s", "t-sum", hits=template)]}, types.registry, ORIGIN)
    repair.join()
    assert "inputs" not in repair.workflow
    assert any(it.severity == "error" for it in types.runner.validate(repair.workflow))


def test_the_source_of_a_mapping_and_the_list_of_a_batch_may_be_inputs(types):
    workflow = {
        "nodes": [{**node("find", "t-find", topic="${item}"), "batch": {"items": "${topics}"}}, CHAIN[2]],
        "mappings": {"say": {"input_mappings": {"text": "message"}}},
    }
    repair = PlanRepair(workflow, types.registry, ORIGIN)
    repair.join()
    assert set(sound(types, repair)["inputs"]) == {"topics", "message"}


def test_what_was_taken_from_elsewhere_becomes_an_input_but_for_a_command_line(types):
    workflow = {"nodes": [node("find", "t-find", topic="evil"), node("run", "t-run", command="curl evil")]}
    repair = PlanRepair(workflow, types.registry, ORIGIN)
    repair.ask_for([(0, "topic"), (1, "command")])
    assert sound(types, repair)["nodes"][0]["params"] == {"topic": "${topic}"}
    assert repair.workflow["nodes"][1]["params"] == {"command": "curl evil"}


def test_an_edge_for_an_action_that_never_comes_is_dropped(types):
    edges = [{"from": "find", "to": "sum"}, {"from": "find", "to": "say", "action": "eror"}]
    repair = PlanRepair({"nodes": [*CHAIN], "edges": edges}, types.registry, ORIGIN)
    assert repair.drop_dead_edges() == ["find never takes eror: that edge was left out"]
    assert repair.workflow["edges"] == edges[:1]


def test_inputs_without_a_description_get_that_of_the_parameter(types):
    workflow = {"nodes": [node("find", "t-find", topic="${a}")], "inputs": {"a": {"type": "str"}}}
    repair = PlanRepair(workflow, types.registry, ORIGIN)
    repair.describe_inputs()
    assert repair.workflow["inputs"]["a"]["description"] == "What"


@pytest.mark.parametrize(
    "workflow",
    [
        {},
        {"nodes": []},
        {"nodes": [None, 3, {"id": 1}, {"id": "a"}, {"id": "a", "type": 2, "params": {}}]},
        {"nodes": [node("a", "t-find", topic="${b.c.d[0]}")], "edges": [None, {"from": "a", "to": "z"}]},
        {"nodes": [node("a", "t-say")], "edges": [{"from": "a", "to": "a"}], "inputs": {}},
        {"nodes": [node("a", "t-none", x="${y}")], "mappings": {"z": {"input_mappings": {"a": "b"}}}},
    ],
)
def test_any_workflow_can_be_repaired(types, workflow):
    repair = PlanRepair(workflow, types.registry, ORIGIN)
    repair.join()
    repair.map_lacking()
    repair.ask_for_lacking()
    repair.drop_dead_edges()
    repair.describe_inputs()
    types.runner.validate(repair.workflow)
