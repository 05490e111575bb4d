"""From tools to registry entries.

- `interface`: a tool's two schemas to a node's parameters and outputs
- `entry`: a tool to its registry entry
- `source`: answers for all of them; `lazy`: the `NodeSource` that loads it when it is used
- `classes`: an entry as a Python class: its name, docstring and signature; `stubs` writes them down
"""

__all__: list[str] = []
