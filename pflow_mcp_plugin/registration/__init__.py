"""From tools to registry entries.

- `tool_entry`: a tool with its two schemas becomes a registry entry
- `tool_source`: the `NodeSource` of all tools; `lazy_source`: loads it when it is first used
- `class_signature`: an entry as a Python class; these classes as a stub file
"""

__all__: list[str] = []
