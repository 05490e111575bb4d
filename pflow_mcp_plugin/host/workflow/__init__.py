"""Workflows as JSON: reading, checking and compiling them. Nothing here runs a node.

- `workflow_loader`: text to JSON; syntax errors name line and column.
- `normal_form`, `document_reader`, `workflow_document`: JSON to its normal form and to typed parts.
- `repetition`: a node's members `batch`, `retry` and `cache`.
- `graph`, `scope`: which nodes run before which, and what a node can therefore refer to;
  `nested_declarations`: what is declared of the values inside those values.
- `workflow_check`, with `reference_check`, `route_check` and `unused_inputs`: all problems at once, as
  `findings`.
- `flow_check`: whether data may flow as it does in a workflow: `data_movement` knows which node reads what of
  which, `data_flows` finds paths.
- `templates`, `coercion`: `${...}` and declared types, for checks and runs.
- `json_text`: strings that hold JSON, and when they are parsed.
- `shell_lines`: templates in shell lines.
- `node_class`: imports the class of a node.
- `run_inputs`: the inputs of a run.
- `workflow_interface`: the types of a workflow's inputs and outputs.
- `locked_workflow`: what the lock files of plugins have against a workflow.
- `compilation`: the plan of a run, as pure data. Start reading here.
"""

from pflow_mcp_plugin.host.workflow.compilation import Compiled, PlannedNode, compile_workflow
from pflow_mcp_plugin.host.workflow.normal_form import normalise
from pflow_mcp_plugin.host.workflow.run_inputs import STILL_TO_COME, bind_inputs
from pflow_mcp_plugin.host.workflow.workflow_check import Checked, NodeTypes, TrustedClaims, check_workflow
from pflow_mcp_plugin.host.workflow.workflow_loader import load_workflow

__all__ = [
    "STILL_TO_COME",
    "Checked",
    "Compiled",
    "NodeTypes",
    "PlannedNode",
    "TrustedClaims",
    "bind_inputs",
    "check_workflow",
    "compile_workflow",
    "load_workflow",
    "normalise",
]
