"""The tools that pflow serves.

- `workflow_tools`: discover, execute, validate, save and list workflows
- `registry_tools`: discover, describe, run, search and list nodes
- `settings_tools`: read and save settings
- `trace_tools`: read the trace of a run
- `schemas`: parts of their schemas, and of the answers to tasks in words
"""

__all__: list[str] = []
