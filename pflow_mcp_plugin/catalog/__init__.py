"""The tools of the servers, as the last sync of each found them.

- `tool_catalog`: the stored tools, one file for each server; finds the tool of a node type
- `tool_file`: the content of such a file, of which only the requested part is decoded
- `json_values`: JSON values cut for people and hashed

Nothing here starts a server.
"""

__all__: list[str] = []
