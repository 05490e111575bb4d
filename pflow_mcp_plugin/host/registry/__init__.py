"""The node types of all sources.

- `node_registry`: `NodeRegistry`, which the rest of the host and the plugins ask. Start reading here.
- `node_sources`: the node sources of all plugins, in their order of precedence, and a record of them
- `saved_entries`: `registry.json`, the user's own entries, as one more source
- `entry_check`: the problems of entries
- `node_index`: the derived SQLite index behind lists and searches
- `discovery`: finds the nodes that a task in words needs; see also `host/matching`
- `semantic_search`: finds them by meaning too, where the extra `[semantic]` is installed
"""
