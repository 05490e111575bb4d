"""From tools to registry entries.

- `tool_entry`: a tool with its two schemas becomes a registry entry
- `lazy_source`: the `NodeSource` of all tools; `tool_source`: its answers, loaded when it is first used
- `class_signature`: an entry as a Python class; these classes as a stub file
"""

__all__: list[str] = []
