"""Servers in the config files of other clients: read for `pflow mcp import`, written for `pflow mcp export`.

In the order in which a server passes through them on its way in:

- `clients`: the table of clients, and which of their files this machine has
- `document_text`: the text of a JSON, TOML or YAML file, parsed within limits, and values put into it
- `variable_syntax`: `${env:X}`, `$X`, `{env:X}` and ours, each turned into the other, and references in place
  of secrets that are written out
- `server_format`: one server, field by field, in both directions; `client_formats`: the fields of each client
- `install_manifests`: files that describe a server to install
- `client_documents`: the servers of one file, and a file with servers put in
- `import_plan`, `export_plan`: what a command would do, as a value that it prints and applies
"""

__all__: list[str] = []
