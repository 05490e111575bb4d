"""From servers to tools, and what is kept of them.

- `sync`: asks servers for their tools, several at once
- `catalog`: what is kept, one file for each server; which tool a node type stands for
- `servers`: the config and the catalog of a user, as one value
- `toolfile`: the content of such a file, and its JSON form
- `storedfile`: such a file as it lies there, decoded as far as it is asked for
- `selection`: which tools the config lets become nodes
- `launching`: a configured server, ready to be started
- `hashes`: what makes a tool, or all tools of a server, the same as before
- `changes`: the difference between two lists of tools, breaking or compatible
- `schemas`: the same for two versions of one JSON Schema
- `document`: a JSON Schema: its local references, its friendly types
- `declaration`: which arguments a schema names

Nothing here starts a server: `sync` is handed a pool.
"""

__all__: list[str] = []
