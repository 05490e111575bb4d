"""From tools to registry entries.

- `node_interface`: a tool's two schemas become a node's parameters and outputs
- `tool_entry`: the registry entry of a tool
- `tool_source`: the `NodeSource` of all tools; `lazy_source`: loads it when it is first used
- `class_signature`: an entry as a Python class: name, docstring and signature; `stub_file` writes
  these classes as a stub file
"""

__all__: list[str] = []
