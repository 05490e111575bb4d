"""The embedded host: a small pflow core, used where no other is installed.

Where to start reading:

- `embedded_host`: `open_host`, and `EmbeddedHost`, the handle that plugins receive
- `plugins`: how plugins are found, loaded and called; one bad plugin never breaks the rest
- `foreign_code`: the one way in which the code of plugins and nodes is called
- `registry`: which node types there are
- `matching`: finds what fits a task in words, for the discovery of nodes and of saved workflows
- `workflow`: a workflow's JSON, normalised, checked and compiled
- `running`: runs a compiled workflow and traces it
- `nodes`: the host's own nodes, registered through the same hooks as any plugin's
- `stored_settings`, `workflow_library`, `trace_files`: what the user saves, and what runs leave behind;
  `workflow_name`: the names of saved workflows; `retention`: how long traces are kept
- `flow_policy`: which nodes must not get data from which; `run_limits`: how many calls a run may make
- `language_model`: the models of the `llm` library
- `rendering`: workflows and traces as pictures, pages and programs
- `direct`: nodes run from the command line, each with its flags
- `cli`: the command line
- `python_workflow`: workflows written in Python
- `standard_streams`: what is printed and read
- `ctrl_c`: Ctrl-C
- `shared_parts`: parts of the host that many threads may ask for first, each made once

It imports the contract and the leaves below it, and knows nothing of any plugin.
"""
