"""The configured servers: where their config is stored, how it is checked, changed and expanded.

In the order in which a server passes through them:

- `locations`: the files and folders, and a check that nobody else may write them
- `server_input`: the arguments, file or JSON given to `pflow mcp add`, or a file of an older pflow, become
  server tables; those that other clients wrote are adapted
- `field_checks`: checks of one value, and the exception that reports problems; `auth`: checks of an `auth`
  table; `server_schema`: checks of a server and of the whole file, all problems at once, and the
  `types.Server` built from a table without errors; the program that its `command` names, or a warning
- `server_store`: the file itself, safe under concurrent writers
- `document_text`: the text of config files in JSON, TOML and YAML, parsed and changed in place
- `project_file`: the `.mcp.json` of a project, whether it was approved, and what people are told about it
- `expansion`: references become values when a server is started; how many are started at the same time
- `interchange/`: the config files of other clients, for import and export
- `display`: a server with its secrets masked
- `server_egress`: whether pflow may connect to a server

`mcp-servers.schema.json` in this folder is the JSON Schema of the config: editors use it, and the checks read
from it which fields there are, their limits and patterns. A test compares the verdicts of both.
"""

__all__: list[str] = []
