"""`pflow mcp logout`: forgets the sign-in at a server, and revokes its tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import click

from pflow_mcp_plugin.cli.dependencies import server_store
from pflow_mcp_plugin.cli.known_names import servers
from pflow_mcp_plugin.config import display
from pflow_mcp_plugin.config.auth import is_machine
from pflow_mcp_plugin.contract import Host, PflowError, Report
from pflow_mcp_plugin.storage import CorruptFile, StoreError
from pflow_mcp_plugin.types import NetworkRules, Server

if TYPE_CHECKING:  # not needed to complete a line
    from pflow_mcp_plugin.cli.server_access import StoredSignIns
    from pflow_mcp_plugin.client.oauth.login import SignOut
    from pflow_mcp_plugin.client.oauth.sign_in_store import StoredSignIn


@click.command()
@click.argument("name", required=False, shell_complete=servers)
@click.option("--all", "everywhere", is_flag=True, help="Sign out everywhere, at former servers too.")
@click.pass_obj
def logout(host: Host, name: str | None, *, everywhere: bool) -> Report:
    """Sign out of server NAME: remove its sign-in from this machine, and revoke its tokens.

    The sign-in is removed even if the authorization server cannot be reached.
    """
    if everywhere == bool(name):
        message = "Give a NAME or --all, not both" if name else "Give a NAME, or --all"
        raise click.UsageError(message)
    return log_out(host, name or "")


def log_out(host: Host, name: str = "") -> Report:
    """Sign out of a server, or everywhere if none is named, as `pflow mcp logout` does.

    Returns:
        Each sign-in that was removed, and whether its tokens were revoked; `error` is set if one could not
        be removed.

    Raises:
        McpError: The server is not configured, and there is no sign-in of that name; or it cannot be told
            which sign-in is its own.
        storage.CorruptFile: The config is not valid TOML, and there is no sign-in of that name.
    """
    known = _known(host)
    chosen = _of_server(host, known, name) if name else known.entries
    ended, failures = sign_out_of(host, known, chosen)
    lines = [line for each in ended for line in each.lines()]
    lines += [
        f"  ! server {user} signs in again by itself when it is used"
        for user in dict.fromkeys(user for each in ended for user in each.users)
        if is_machine(known.servers[user].auth)
    ]
    nothing = f"Nobody is signed in at server {name}" if name else "Nobody is signed in anywhere"
    return Report(
        data={"removed": [each.to_dict() for each in ended]},
        text="\n".join(lines) or ("" if failures else nothing),
        error=failures[0] if failures else None,
    )


def _known(host: Host) -> StoredSignIns:
    """Return the stored sign-ins, of which nobody must be kept by a config that cannot be read."""
    from pflow_mcp_plugin.cli.server_access import stored_sign_ins, stored_sign_ins_alone

    try:
        return stored_sign_ins(host)
    except (CorruptFile, StoreError):
        return stored_sign_ins_alone(host)


def _of_server(host: Host, known: StoredSignIns, name: str) -> Sequence[StoredSignIn]:
    found = known.of_name(name)
    if not found and name in known.failures:
        raise known.failures[name]
    if not found:
        server_store(host).table(name)  # raises the error about an unknown server, with similar names
    return found


@attrs.frozen(kw_only=True)
class EndedSignIn:
    """A sign-in that was removed, as it is reported.

    Attributes:
        outcome: What became of it.
        users: The configured servers that used it.
    """

    outcome: SignOut
    users: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it in JSON form."""
        entry = self.outcome.entry
        found: dict[str, Any] = {"file": entry.name}
        if entry.sign_in:
            url, issuer = display.url(entry.sign_in.server_url, widely=True), entry.sign_in.issuer
            found = {"server": entry.sign_in.server, "url": url, "issuer": issuer}
        found |= {"used_by": [*self.users], "revoked": self.outcome.revoked}
        return {**found, "reason": self.outcome.reason or None}

    def lines(self) -> Iterator[str]:
        """Yield it in lines for people."""
        found = self.outcome.entry.sign_in
        if found is None:
            yield f"Removed {self.outcome.entry.name}, a sign-in that could not be read"
        else:
            name = ", ".join(self.users) or found.server
            url = display.url(found.server_url, widely=True)
            yield f"Signed out of server {name}: {url}, with {found.issuer}"
        if self.outcome.reason:
            yield f"  ! its tokens were not revoked: {self.outcome.reason}; they are good until they expire"


def sign_out_of(
    host: Host, known: StoredSignIns, chosen: Sequence[StoredSignIn]
) -> tuple[list[EndedSignIn], list[PflowError]]:
    """Remove sign-ins and revoke their tokens, at the same time.

    Returns:
        Those that were removed, and the errors about others.
    """
    if not chosen:
        return [], []
    import asyncio

    from pflow_mcp_plugin.client.oauth.login import sign_out

    rules = _network(host)
    servers = [_server_of(known, entry, rules) for entry in chosen]

    async def all_of_them() -> list[SignOut | BaseException]:
        each = (sign_out(known.store, entry, server) for entry, server in zip(chosen, servers, strict=True))
        return await asyncio.gather(*each, return_exceptions=True)

    outcomes = asyncio.run(all_of_them())
    failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    unexpected = next((failure for failure in failures if not isinstance(failure, PflowError)), None)
    if unexpected:
        raise unexpected
    ended = [
        EndedSignIn(outcome=outcome, users=tuple(known.users(outcome.entry)))
        for outcome in outcomes
        if not isinstance(outcome, BaseException)
    ]
    return ended, [failure for failure in failures if isinstance(failure, PflowError)]


def _network(host: Host) -> NetworkRules | None:
    """Return the rules for the network, None if they cannot be read."""
    try:
        return server_store(host).network()
    except PflowError:
        return None


def _server_of(known: StoredSignIns, entry: StoredSignIn, network: NetworkRules | None) -> Server | None:
    """Return the server by whose rules the tokens of a sign-in are revoked, None if they are unknown."""
    users = known.users(entry)
    if users:
        return known.servers[users[0]]
    if network is None:
        return None
    found = entry.sign_in
    return Server(
        name=found.server if found else "",
        transport="http",
        url=found.server_url if found else "",
        network=network,
    )
