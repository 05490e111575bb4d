"""The stored sign-ins, and which configured server uses which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from pflow_mcp_plugin.cli.dependencies import lookup, server_store
from pflow_mcp_plugin.client.oauth.sign_in_store import SignInKey, SignInStore, StoredSignIn
from pflow_mcp_plugin.config.expansion import Lookup, expand
from pflow_mcp_plugin.config.locations import sign_in_folder
from pflow_mcp_plugin.contract import Host, PflowError
from pflow_mcp_plugin.types import Server


@attrs.frozen(kw_only=True)
class StoredSignIns:
    """The stored sign-ins beside the configured servers that have `auth` of type `oauth`.

    Attributes:
        store: The store.
        entries: The sign-ins in it.
        servers: The servers, expanded as far as their sign-in needs it.
        failures: Why this was impossible, for the others.
    """

    store: SignInStore
    entries: Sequence[StoredSignIn]
    servers: Mapping[str, Server]
    failures: Mapping[str, PflowError]

    def of(self, server: Server) -> list[StoredSignIn]:
        """Return the stored sign-ins at the URL of a server and by its client, whatever their issuer."""
        digest = SignInKey.of(server).digest
        return [entry for entry in self.entries if entry.digest == digest]

    def current(self, server: Server) -> StoredSignIn | None:
        """Return the stored sign-in that a server uses: the latest, or that with the issuer in its config."""
        issuer = str(server.auth.get("issuer", ""))
        name = self.store.name_of(SignInKey.of(server), issuer)
        found = [entry for entry in self.of(server) if not issuer or entry.name == name]
        return max(found, key=lambda entry: entry.sign_in.signed_in_at if entry.sign_in else 0, default=None)

    def users(self, entry: StoredSignIn) -> list[str]:
        """Return the names of the servers that a stored sign-in belongs to."""
        return [name for name, server in self.servers.items() if entry in self.of(server)]

    def of_name(self, name: str) -> list[StoredSignIn]:
        """Return the sign-ins of a server, and those stored under its name that belong to no server."""
        own = self.of(self.servers[name]) if name in self.servers else []
        former = [entry for entry in self.entries if entry.sign_in and entry.sign_in.server == name]
        return list(dict.fromkeys([*own, *(entry for entry in former if not self.users(entry))]))


def stored_sign_ins(host: Host) -> StoredSignIns:
    """Return the stored sign-ins beside the configured servers.

    Raises:
        storage.CorruptFile: The config of the servers is not valid TOML.
        storage.StoreError: It cannot be read.
    """
    config, variables = server_store(host), lookup(host)
    servers: dict[str, Server] = {}
    failures: dict[str, PflowError] = {}
    for name in config.names():
        try:
            server = config.get(name)
            if server.auth.get("type") == "oauth":
                servers[name] = _expanded(server, variables)
        except PflowError as error:
            failures[name] = error
    return attrs.evolve(stored_sign_ins_alone(host), servers=servers, failures=failures)


def stored_sign_ins_alone(host: Host) -> StoredSignIns:
    """Return the stored sign-ins without the configured servers, whose config may be unreadable."""
    store = SignInStore(sign_in_folder(host.paths))
    return StoredSignIns(store=store, entries=[*store.entries()], servers={}, failures={})


def _expanded(server: Server, variables: Lookup) -> Server:
    """Expand a server; without its secrets and headers if they cannot be, as these do not identify it."""
    try:
        return expand(server, variables).server
    except PflowError:
        identity = ("type", "flow", "client_id", "issuer", "scopes")
        auth = {key: server.auth[key] for key in identity if key in server.auth}
        return expand(attrs.evolve(server, auth=auth, headers={}, client_cert=()), variables).server
