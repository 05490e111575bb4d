"""Running a compiled workflow.

- `runner`: `WorkflowRunner`, what the command line and plugins call; the contexts that plugins hold open
  during a run, and the signals that end it. Start reading here.
- `current_run`: the handle on a run for its nodes and plugins, and the progress of the run.
- `shared_store`: the values written so far, and a node's view of them.
- `flow`: the workflow as a pocketflow `Flow`, its recorded steps, a workflow that runs in it as a node, and
  the outputs of either; importing it imports pocketflow.
- `attempts`: run a node on its params, and retry it where that is safe.
- `batch`: runs a node for each item of a list.
- `recorded_run`, `run_record`: what each step sent and returned; `earlier_steps`: how a resumed run finds
  them; `resumption`: an earlier run, opened to go on with it; `verification`: finds out whether an open step
  happened.
- `recorded_trace`: the trace of a run that was killed.
- `question`: what a node `ask` asks.
- `result_reuse`, `result_cache`: results of earlier runs in place of running a node; `result_key`: what
  identifies them, and the steps of a record.
- `run_report`: the errors that stop a run, those after which it went on, and its report.
- `terminal_display`: what a run shows on a terminal.
- `trace_recorder`: the trace that a run writes to disk, and what watches the run meanwhile.
- `value_excerpt`: what is shown of large values, the files that hold the whole, and the paths in a value.
"""

from pflow_mcp_plugin.host.running.runner import WorkflowRunner

__all__ = ["WorkflowRunner"]
