"""Workflows as JSON: reading, checking and compiling them. Nothing here runs a node.

- `workflow_text`: file to text to JSON, and line and column of the problems found.
- `markdown_sections`, `markdown_workflow`: workflows in Markdown to their parts, and to JSON.
- `document_reader`, `workflow_document`: JSON to its normal form and to typed parts; the inputs of a run.
- `constructs`: what a node's `when`, `batch`, `retry` and `cache` are, read, add, change and show; the place
  for a new construct.
- `graph`: which nodes run before which, and the check of routes.
- `reference_check`: what a node can refer to, by that order, and the check of templates and expressions.
- `workflow_reads`: where expressions are, what a workflow reads, and what is known of each node before a run,
  for its source to judge.
- `workflow_check`: all problems at once, as `findings`.
- `sub_workflows`: the check of a workflow together with those that it runs as nodes; its interface.
- `data_flows`: which node reads what from which, and the paths that data may take.
- `templates`, `coercion`: `${...}` and the declarations of its values, declared types, and strings that
  hold JSON, for checks and runs.
- `shell_lines`: templates in shell lines, and where a shell would evaluate values as code.
- `expressions`: the expression language. `workflow_reads` knows where expressions are and what they read.
  The rest does not import the language.
- `compilation`: the plan of a run, as pure data. Start reading here.
"""

from pflow_mcp_plugin.host.workflow.compilation import Compiled
from pflow_mcp_plugin.host.workflow.sub_workflows import WorkflowPlace, check_workflow
from pflow_mcp_plugin.host.workflow.workflow_check import ChangedEntries, Checked, NodeTypes, opened, trusted
from pflow_mcp_plugin.host.workflow.workflow_document import STILL_TO_COME, bind_inputs, normalise
from pflow_mcp_plugin.host.workflow.workflow_text import load_workflow

__all__ = [
    "STILL_TO_COME",
    "ChangedEntries",
    "Checked",
    "Compiled",
    "NodeTypes",
    "WorkflowPlace",
    "bind_inputs",
    "check_workflow",
    "load_workflow",
    "normalise",
    "opened",
    "trusted",
]
