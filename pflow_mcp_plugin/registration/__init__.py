"""From tools to registry entries.

- `interface`: a tool's two schemas to a node's parameters and outputs
- `entry`: a tool to its registry entry
- `source`: the `NodeSource` that answers for all of them
"""

__all__: list[str] = []
