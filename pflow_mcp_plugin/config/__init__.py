"""The servers a person has: where their config lies, how it is checked, kept and expanded.

In the order a server passes through it:

- `where`: the files
- `intake`: what `pflow mcp add` is given, in any of its shapes, becomes server tables
- `fields`: checks of one value; `schema`: checks of a server and of the whole file, all problems
  at once, and the `types.Server` that is made of a table without any
- `store`: the file itself, changed by several writers at once without loss
- `toml`: its text: where a mistake is, whether it has comments
- `references`: the `${VAR}` syntax; `expansion`: references become values when a server is started
- `secrecy`: which parts of a server are secret; `showing`: a server as it may be printed, its secrets masked

`mcp-servers.schema.json` beside this file is the JSON Schema of the config for editors; a test
holds it and `schema` to the same verdicts.
"""

__all__: list[str] = []
