"""Which node types there are, over all sources.

- `lookup`: `Registry`, what the rest of the host and the plugins ask
- `sources`: the node sources of all plugins, in their order of precedence
- `saved`: `registry.json`, what users put there, as one more source
- `remembered`: which plugin brought which prefix, for when it is absent
- `index`: the derived SQLite index behind lists and searches
"""
