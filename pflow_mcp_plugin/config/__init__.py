"""The configured servers: where their config is stored, how it is checked, changed and expanded.

In the order in which a server passes through them:

- `locations`: the files and folders
- `server_input`: the arguments, file or JSON given to `pflow mcp add` become server tables;
  `dialects` adapts tables that other clients wrote
- `field_checks`: checks of one value; `auth`: checks of an `auth` table; `server_schema`: checks of
  a server and of the whole file, all problems at once, and the `types.Server` built from a table
  without errors; `problem_errors`: the exception that reports problems
- `server_store`: the file itself, safe under concurrent writers
- `project_file`: the `.mcp.json` of a project, and whether it was approved; `project_notices`: its servers
  shown in full, and warnings about them
- `stored_files`: sign-ins that others may read, and pins and tool files that others may write
- `toml_codec`: TOML decoded and encoded; `toml_edit`: replaces one
  table in the text of a file
- `token_shapes`: tokens recognised by their shapes
- `expansion`: references become values when a server is started
- `start_limit`: how many servers are started at the same time
- `interchange/`: the config files of other clients, for import and export
- `display`: a server with its secrets masked

`mcp-servers.schema.json` in this folder is the JSON Schema of the config for editors; a test
checks that it and `server_schema` reach the same verdicts.
"""

__all__: list[str] = []
