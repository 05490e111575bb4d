"""Running a compiled workflow.

- `runner`: `WorkflowRunner`, what the command line and plugins call. Start reading here.
- `current_run`: the handle that nodes and plugins get on their run, and how far it has come.
- `run_contexts`: the contexts that plugins hold open during a run, and the signals that end it.
- `shared_store`: the values written so far, and a node's view of them.
- `steps`: one recorded step: a node, or all items of its batch.
- `attempts`: run a node on its params, and retry it where that is safe.
- `result_reuse`, `result_key`, `result_cache`: results of earlier runs in place of running a node.
- `batch`: runs a node for each item of a list.
- `flow`: the workflow as a pocketflow `Flow`, one that runs in it as a node, and the outputs of either;
  importing it imports pocketflow.
- `shown_run`, `terminal_display`: what a run shows on a terminal, and its report.
- `single_node`: a node that runs alone: its params, and the paths in what it wrote.
- `run_errors`: the errors that stop a run, and those after which it went on.
- `trace_recorder`: the trace that a run writes to disk, and who watches meanwhile.
- `value_excerpt`: what is shown of large values, and the files that hold the whole.
"""

from pflow_mcp_plugin.host.running.runner import WorkflowRunner
from pflow_mcp_plugin.host.running.shared_store import NodeAwareSharedStore

__all__ = ["NodeAwareSharedStore", "WorkflowRunner"]
