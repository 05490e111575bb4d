"""The node types of all sources.

- `node_registry`: `NodeRegistry`, which the rest of the host and the plugins ask, and the check of
  entries. Start reading here.
- `node_sources`: the node sources of all plugins, in their order of precedence, a record of them, and
  `registry.json`, the user's own entries, as one more source
- `node_index`: the derived SQLite index behind lists and searches
- `discovery`: finds the nodes that a task in words needs; see also `host/matching`
- `semantic_search`: finds them by meaning too, where the extra `[semantic]` is installed
"""
