"""pflow and other things that this package serves over MCP.

- `pflow_server`: pflow itself as a server of the SDK; `offer`: which tools, resources and prompts it has,
  `serving_options`: how they are served.
- `tools/`: the tools of pflow, each a `served_tool`; `envelopes`: the form of their answers.
- `saved_workflow_tools`, `workflow_schemas`: saved workflows as tools of their own.
- `resources`, with `agent_guide.md`, and `prompts`.
- `library_watch`, `list_changes`: clients learn that a list has changed.
- `workflow_as_tool`, `mounted_workflow`: a workflow as a tool of a server of one's own.
- `workflow_argument`, `argument_check`, `confined_paths`, `known_secrets`: checks of what comes in and goes
  out.
- `stdio`, `worker_threads`, `progress_sender`: how a server runs.
- `demo_server`: the bundled server to try pflow with.
"""

from pflow_mcp_plugin.server.workflow_as_tool import as_tool

__all__ = ["as_tool"]
