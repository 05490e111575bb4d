"""Workflows written in Python."""

from typing import Any

import pocketflow

from pflow_mcp_plugin.host.rendering.python_export import python_script
from pflow_mcp_plugin.script import Script


class Counted(pocketflow.Node):
    def post(self, shared, prep_res, exec_res):
        shared["number"] = self.params.get("start", 0) + 1


def test_templates_may_name_what_a_class_of_the_scripts_own_writes(pflow_home):
    script = Script("count", outputs={"last": "${two.number}"})
    one = script.node("one", "counted", Counted)
    two = script.node("two", "counted", Counted, params={"start": "${one.number}"})
    one >> two
    assert script.run(one).outputs == {"last": 2}


def test_an_exported_program_makes_tools_of_their_classes_where_these_can_name_the_params(pflow_host):
    properties = {"a": {}, "from": {}}
    answers = pflow_host.stub("shop", [{"name": "add", "inputSchema": {"properties": properties}}])
    answers.give("add", {"sum": 3})
    nodes = [
        {"id": "plain", "type": "mcp-shop-add", "params": {"a": "${x}"}, "retry": {"max": 2}},
        {"id": "odd", "type": "mcp-shop-add", "params": {"from": 1}},
    ]
    workflow = {"nodes": nodes, "inputs": {"x": {"type": "int"}}}
    runner = pflow_host.host.runner
    text = python_script(runner.compile(workflow, "sums"), runner.normalise(workflow))
    assert "\nfrom pflow_mcp_plugin.nodes import McpShopAddNode\nfrom pflow_mcp_plugin.script import" in text
    assert "plain = script.node('plain', McpShopAddNode(a='${x}'), retry={'max': 2})\n" in text
    assert "odd = script.node('odd', 'mcp-shop-add', params={'from': 1})\n" in text
    program: dict[str, Any] = {"__name__": "exported"}
    exec(text, program)
    made = program["script"].workflow(program["plain"])
    assert [made["nodes"][0][key] for key in ("id", "type", "params", "retry")] == [*nodes[0].values()]
