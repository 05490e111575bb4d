"""The tools that pflow serves.

- `workflow_tools`: discover, execute, validate, save and list workflows
- `registry_tools`: discover, describe, run, search and list nodes
- `settings_tools`: read and save settings
- `trace_tools`: read the trace of a run
- `discovery_answer`: the answer of those that find something for a task in words
- `schemas`: parts of their schemas
- `all_tools`: all of them, in the order in which an agent needs them
"""

__all__: list[str] = []
