"""JSON Schemas of tools: reading them, showing them, and checking arguments against them.

A schema comes from a server and may be anything: nothing here raises because of it, and all work is bounded.

- `schema_reader`: the one reader of JSON Schemas, for the host too: references, friendly types, keys of
  objects
- `schema_outline`: what is inside a parameter, for people to read; a value that fits a schema
- `argument_validation`: checks arguments against the input schema of a tool; `quick_check`
  accepts simple cases early, `schema_reduction` drops what cannot be checked safely
"""

__all__: list[str] = []
