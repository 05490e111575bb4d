"""Workflows written in Python."""

from __future__ import annotations

import pocketflow

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
