"""Workflows as JSON: reading, checking and compiling them. Nothing here runs a node.

- `workflow_file`, `workflow_loader`, `yaml_text`: file to text to JSON; syntax errors name line and column.
- `problem_places`: line and column of the problems found.
- `normal_form`, `document_reader`, `workflow_document`: JSON to its normal form and to typed parts.
- `constructs`: what a node's `when`, `batch`, `retry` and `cache` read, add, change and show; a new construct
  belongs there. `table_rules`: what their members may be.
- `graph`, `scope`: which nodes run before which, and what a node can therefore refer to;
  `nested_declarations`: what is declared of the values inside those values.
- `workflow_check`, with `reference_check` and `route_check`: all problems at once, as `findings`.
- `node_uses`: what a workflow reads, and what is known of each node before a run, for its source to judge.
- `sub_workflows`: the check of a workflow together with those that it runs as nodes;
  `self_contained`: a workflow with the files that its nodes name written in it.
- `flow_check`: whether data may flow as it does in a workflow: `data_movement` knows which node reads what of
  which, `nested_movement` does so across workflows that run in others, `data_flows` finds paths.
- `templates`, `coercion`: `${...}` and declared types, for checks and runs.
- `json_text`: strings that hold JSON, and when they are parsed.
- `shell_lines`: templates in shell lines.
- `shell_evaluation`: where a shell would evaluate the value of a template as code.
- `expressions`: the expression language. `expression_places` knows where expressions are and what they read,
  `expression_check` checks them. The rest does not import the language.
- `node_class`: imports the class of a node.
- `run_inputs`: the inputs of a run.
- `workflow_interface`: the types of a workflow's inputs and outputs.
- `locked_workflow`: what the lock files of plugins have against a workflow.
- `compilation`: the plan of a run, as pure data. Start reading here.
"""

from pflow_mcp_plugin.host.workflow.compilation import Compiled, PlannedNode, compile_workflow
from pflow_mcp_plugin.host.workflow.normal_form import normalise
from pflow_mcp_plugin.host.workflow.run_inputs import STILL_TO_COME, bind_inputs
from pflow_mcp_plugin.host.workflow.sub_workflows import WorkflowPlace, check_workflow
from pflow_mcp_plugin.host.workflow.workflow_check import ChangedEntries, Checked, NodeTypes, opened, trusted
from pflow_mcp_plugin.host.workflow.workflow_loader import load_workflow

__all__ = [
    "STILL_TO_COME",
    "ChangedEntries",
    "Checked",
    "Compiled",
    "NodeTypes",
    "PlannedNode",
    "WorkflowPlace",
    "bind_inputs",
    "check_workflow",
    "compile_workflow",
    "load_workflow",
    "normalise",
    "opened",
    "trusted",
]
