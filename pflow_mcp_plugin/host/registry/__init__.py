"""Which node types there are, over all sources.

- `lookup`: `Registry`, what the rest of the host and the plugins ask
- `sources`: the node sources of all plugins, in their order of precedence
- `saved`: `registry.json`, what users put there, as one more source
- `outdated`: what an older pflow left in that file
- `remembered`: which plugin brought which prefix, for when it is absent
- `checking`: what is wrong with entries
- `index`: the derived SQLite index behind lists and searches
- `discovery`: which nodes a task in words needs; `wording` takes the task apart, `thesaurus.txt` holds
  what tools call the things that people say, `reranking` asks a model
"""
