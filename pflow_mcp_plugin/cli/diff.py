"""`pflow mcp diff`: what changed in servers and their tools since they were approved."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import click

from pflow_mcp_plugin.cli.dependencies import catalog, current_launch, pins, server_store
from pflow_mcp_plugin.cli.known_names import servers
from pflow_mcp_plugin.config.server_store import ServerStore
from pflow_mcp_plugin.contract import Host, PflowError, Report
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.trust.pins import NOTHING, Comparison, compare
from pflow_mcp_plugin.types import Server


@click.command()
@click.argument("server", required=False, shell_complete=servers)
@click.pass_obj
def diff(host: Host, server: str | None) -> Report:
    """Show what changed in all servers, or in SERVER, since they were approved, as of the last sync.

    Starts no server. Changes marked with ! need an approval: pflow mcp approve.
    """
    return differences(host, server)


@attrs.frozen(kw_only=True)
class ServerDifference:
    """How one server differs from what was approved, as `pflow mcp diff` shows it.

    Attributes:
        server: Its name.
        note: Why nothing can be compared; empty if it was.
        comparison: The differences.
    """

    server: str
    note: str = ""
    comparison: Comparison = NOTHING

    def to_dict(self) -> dict[str, JSON]:
        """Return the differences of a server in JSON form."""
        note: dict[str, JSON] = {"note": self.note} if self.note else {}
        return {"server": self.server, **note, **self.comparison.to_dict()}

    def lines(self) -> Iterator[str]:
        """Yield the differences of a server in lines for people."""
        lines = [*self.comparison.lines()]
        yield f"{self.server}: {self.note or ('differs' if lines else 'as approved')}"
        yield from (f"  {line}" for line in lines)
        if self.comparison:
            yield f"  To approve it, run: pflow mcp approve {self.server}"


def differences(host: Host, server: str | None = None) -> Report:
    """Return the report of `pflow mcp diff`: what differs from what was approved; starts no server.

    Raises:
        McpError: The named server is not configured, or its config has mistakes.
        storage.CorruptFile: Its pins are corrupt.
    """
    store = server_store(host)
    if server:
        found = [_difference(host, store.get(server))]
    else:
        found = [_difference_or_note(host, store, name) for name in store.names()]
    text = "\n".join(line for each in found for line in each.lines())
    return Report(data=[each.to_dict() for each in found], text=text or "No MCP server is configured")


def _difference_or_note(host: Host, store: ServerStore, name: str) -> ServerDifference:
    """Return the differences of one of all servers; what is wrong with it does not hide those of others."""
    try:
        return _difference(host, store.get(name))
    except PflowError as error:
        return ServerDifference(server=name, note="; ".join([str(error), *error.suggestions]))


def _difference(host: Host, server: Server) -> ServerDifference:
    name = server.name
    pinned, synced = pins(host).read(name), catalog(host).file(name)
    if synced is None:
        return ServerDifference(server=name, note=f"never synced (run: pflow mcp sync {name})")
    if pinned is None:
        return ServerDifference(server=name, note=f"nothing is approved yet (run: pflow mcp sync {name})")
    # What it is started by now counts, even if it was not synced since.
    found = attrs.evolve(synced, launch=current_launch(host, name))
    return ServerDifference(server=name, comparison=compare(pinned, found))
