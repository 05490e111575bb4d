from node_types import NodeTypes, entry_of, fields
from workflow_parts import flow as workflow_of
from workflow_parts import step

from pflow_mcp_plugin.contract import Interface
from pflow_mcp_plugin.host.flow_policy import FlowPolicy, FlowRule
from pflow_mcp_plugin.host.workflow import check_workflow
from pflow_mcp_plugin.host.workflow.data_flows import find_flows

EFFECTS = {"fetch": ("untrusted_output",), "post": ("sends_data",), "delete": ("destructive",)}


class Types(NodeTypes):
    def find(self, node_type):
        if node_type == "workflow":
            return entry_of("workflow")
        if node_type == "report":
            return entry_of("report", Interface(inputs=("error",)), effects=("sends_data",))
        interface = Interface(params=fields("text"), outputs=fields("text"))
        return entry_of(node_type, interface, effects=EFFECTS.get(node_type, ()))


def node(node_type, **params):
    return step(node_type, node_type, params)


def inside(*nodes, node_id="sub", outputs=None, **params):
    workflow = workflow_of(*nodes, inputs={name: {} for name in params}, outputs=outputs or {})
    return step(node_id, "workflow", {"workflow": workflow, **params})


def flows(*nodes, policy=None, **workflow):
    checked = check_workflow({"nodes": list(nodes), **workflow}, Types())
    assert not [problem for problem in checked.problems if problem.severity == "error"]
    return find_flows(checked, policy or FlowPolicy(), every=policy is None).flows


def test_data_flows_out_of_a_sub_workflow():
    out = {"page": "${fetch.text}"}
    [flow] = flows(inside(node("fetch"), node("keep"), outputs=out), node("delete", text="${sub.page}"))
    assert str(flow) == (
        "sub/fetch (fetch: untrusted output) --*--> sub --page--> delete (delete: destructive)"
    )


def test_data_flows_inside_a_sub_workflow_and_through_several():
    inner = inside(node("fetch"), node("post", text="${fetch.text}"), node_id="inner")
    assert [flow.path[-1].node for flow in flows(inside(inner))] == ["sub/inner/post"]
    through = inside(node("keep", text="${given}"), outputs={"o": "${keep.text}"}, given="${fetch.text}")
    [flow] = flows(node("fetch"), through, node("post", text="${sub.o}"))
    assert [step.node for step in flow.path] == ["fetch", "sub", "sub/keep", "sub", "post"]


def test_data_that_an_output_does_not_name_stays_inside():
    out = {"kept": "${keep.text}"}
    assert not flows(inside(node("fetch"), node("keep"), outputs=out), node("post", text="${sub.kept}"))
    assert not flows(node("fetch"), inside(node("post"), given="${fetch.text}"))
    assert flows(inside(node("fetch"), node("keep"), outputs=out), node("post", text="${sub.error}"))
    assert flows(inside(node("keep"), node("fetch")), node("post", text="${sub.text}"))


def test_an_error_inside_a_sub_workflow_is_read_at_the_root():
    sub = inside(node("fetch"), node("keep"), outputs={"o": "${keep.text}"})
    for namespaced, begins in ((False, ["sub/fetch"]), (True, [])):
        found = flows(sub, {"id": "report"}, enable_namespacing=namespaced)
        assert [flow.path[0].node for flow in found] == begins


def test_an_input_may_leave_a_sub_workflow_as_it_came():
    same = inside(node("keep", text="x"), outputs={"o": "${given}"}, given="${fetch.text}")
    [flow] = flows(node("fetch"), same, node("post", text="${sub.o}"))
    assert [step.node for step in flow.path] == ["fetch", "sub", "sub", "post"]


def test_a_policy_denies_flows_through_sub_workflows():
    rule = FlowRule(begin="inputs", end="post", path="flows.deny[0]")
    found = flows(
        inside(node("post", text="${given}"), given="${text}"),
        policy=FlowPolicy(deny=(rule,)),
        inputs={"text": {}},
    )
    assert [(flow.path[0].node, flow.path[-1].node, flow.rule) for flow in found] == [
        ("inputs", "sub/post", "flows.deny[0]")
    ]


def test_data_flows_out_of_a_workflow_inside_another():
    inner = inside(node("fetch"), node_id="inner", outputs={"page": "${fetch.text}"})
    [flow] = flows(inside(inner, outputs={"o": "${inner.page}"}), node("post", text="${sub.o}"))
    assert [step.node for step in flow.path] == ["sub/inner/fetch", "sub/inner", "sub", "post"]
