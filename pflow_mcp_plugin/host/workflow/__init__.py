"""Workflows as JSON: reading, checking and compiling them. Nothing here runs a node.

- `loading`: text to JSON, with line and column where it is not.
- `normal`, `reading`, `document`: JSON to its normal form and to typed parts.
- `repetition`: a node's tables `batch` and `retry`.
- `graph`, `scope`: what runs before what, and what a node can therefore refer to; `declarations`:
  what is declared of what lies inside that.
- `checking`, with `references`, `routes` and `usage`: every problem at once, as `findings`.
- `templates`, `coercion`: `${...}` and declared types, when checking and when running.
- `json_text`: when a text is taken for the JSON that it is.
- `shell_lines`: templates in lines that a shell reads.
- `inputs`: what a run is given.
- `compilation`: the plan of a run, as pure data. Start reading here.
"""

from pflow_mcp_plugin.host.workflow.compilation import Compiled, PlannedNode, compile_workflow
from pflow_mcp_plugin.host.workflow.normal_form import normalise
from pflow_mcp_plugin.host.workflow.run_inputs import STILL_TO_COME, bind_inputs
from pflow_mcp_plugin.host.workflow.workflow_check import Checked, NodeTypes, check_workflow
from pflow_mcp_plugin.host.workflow.workflow_loader import load_workflow

__all__ = [
    "STILL_TO_COME",
    "Checked",
    "Compiled",
    "NodeTypes",
    "PlannedNode",
    "bind_inputs",
    "check_workflow",
    "compile_workflow",
    "load_workflow",
    "normalise",
]
