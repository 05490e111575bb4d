"""Running a compiled workflow.

- `runner`: `WorkflowRunner`, what the command line and plugins call. Start reading here.
- `run`: the handle that nodes and plugins get on their run.
- `contexts`: what plugins hold open meanwhile.
- `values`, `store`: what has been written so far, and a node's view of it.
- `steps`: one step, recorded: a node, or all items of its batch.
- `attempts`, `repeating`: params in, action out, and again where that is safe.
- `batch`, `threads`, `progress`: a node for each item of a list.
- `flow`: the workflow as a pocketflow `Flow`; importing it imports pocketflow.
- `failures`: what stops a run.
- `signals`: what else than Ctrl-C stops one.
- `trace`: what a run leaves on disk.
"""

from pflow_mcp_plugin.host.running.runner import WorkflowRunner
from pflow_mcp_plugin.host.running.shared_store import NodeAwareSharedStore

__all__ = ["NodeAwareSharedStore", "WorkflowRunner"]
