"""Servers in the config files of other clients: read for `pflow mcp import`, written for `pflow mcp export`.

In the order in which a server passes through them on its way in:

- `clients`: the table of clients; `client_files`: which of their files this machine has
- `document_text`: the text of a JSON, TOML or YAML file, parsed within limits
- `variable_syntax`: `${env:X}`, `$X`, `{env:X}` and ours, each turned into the other
- `server_format`: one server, field by field, in both directions; `client_formats`: the fields of each
  client; `codex_format`: those of Codex, which names variables in fields of their own
- `registry_manifest`, `bundle_manifest`: files that describe a server to install
- `client_documents`: the servers of one file, and a file with servers put in
- `literal_secrets`: secrets written out in a table, replaced by references
- `import_plan`, `export_plan`: what a command would do, as a value that it prints and applies
"""

__all__: list[str] = []
