"""Presets: ready-made servers that users add by name.

- `collection`: the presets of all plugins; the config of a server made with the values that a user gives, and
  whether such a server still has the tools that the preset's author saw
- `builtin`: our own, an ordinary plugin, which gets them from `builtin_servers`
- `package_template`: the package that `pflow mcp new-preset` writes

A preset itself is `types.ServerPreset`; `pflow_mcp_presets` in `mcp_hookspecs` is the hook that offers it.
"""

__all__: list[str] = []
