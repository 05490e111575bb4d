"""The embedded host: a small pflow core, used where no other is installed.

Where to start reading:

- `app`: `open_host` and `EmbeddedHost`, the handle that plugins are given
- `plugins`, `entrypoints`, `hooks`: how plugins are found, loaded and called, one bad one never
  sinking the rest
- `registry`: which node types there are
- `workflow`: a workflow's JSON, normalised, checked and compiled
- `running`: a compiled workflow runs and is traced
- `nodes`, `builtin`: the host's own nodes, which come through the same hooks as any plugin's
- `settings`, `library`, `traces`: what the user keeps, and what runs leave
- `cli`: the command line
- `script`: workflows written in Python
- `streams`, `interruption`: standard streams and Ctrl-C

It imports the contract, `storage` and `redaction`, and knows nothing of any plugin.
"""
