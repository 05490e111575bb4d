"""Servers in the config files of other clients: read for `pflow mcp import`, written for `pflow mcp export`.

In the order in which a server passes through them on its way in:

- `clients`: the table of clients, and which of their files this machine has
- `server_translation`: one server, field by field, in both directions, and its references: `${env:X}`, `$X`,
  `{env:X}` and ours; `client_formats`: the fields of each client
- `install_manifests`: files that describe a server to install
- `client_documents`: the servers of one file, and a file with servers put in
- `transfer_plans`: what an import or export would do, as a value that the command prints and applies;
  references in place of secrets that are written out
"""

__all__: list[str] = []
