"""`pflow mcp audit`: checks what servers say about their tools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from pflow_mcp_plugin.cli.command_arguments import servers
from pflow_mcp_plugin.contract import Host, PflowError, Report
from pflow_mcp_plugin.discovery.servers import catalog, server_store
from pflow_mcp_plugin.terminal.human_units import count_text
from pflow_mcp_plugin.terminal.looks import one_line
from pflow_mcp_plugin.types import ToolFilter

if TYPE_CHECKING:
    from pflow_mcp_plugin.trust.hidden_text import Finding


@click.command()
@click.argument("server", required=False, shell_complete=servers)
@click.pass_obj
def audit(host: Host, server: str | None) -> Report:
    """Check the tools of all synced servers, or of SERVER, for what a person should look at.

    Looks for hidden text, names that belong to or look like those of others, texts about other servers'
    tools, annotations that contradict a name, and arguments that ask for more than the tool explains. It
    reads what the last sync stored and starts no server. Exits 2 if a finding is an error.
    """
    known, filters = catalog(host), _filters(host)
    if server:
        server_store(host).get(server)
        if server not in known.servers():
            raise PflowError(
                f"Server {server} has not been synced",
                kind="config",
                suggestions=(f"Run: pflow mcp sync {server}",),
            )
        filters = {server: filters[server]}
    count = sum(chosen.allows(tool) for name, chosen in filters.items() for tool in known.tool_names(name))
    found = findings(host, list(filters))
    wrong = [finding for finding in found if finding.severity == "error"]
    error = None
    if wrong:
        owners = list(dict.fromkeys(finding.server for finding in wrong))
        message = f"{len(wrong)} finding{' is an error' if len(wrong) == 1 else 's are errors'}"
        error = PflowError(
            f"{message}, in the tools of: {', '.join(owners)}",
            kind="validation",
            suggestions=tuple(f"Unless you can explain it: pflow mcp remove {owner}" for owner in owners),
        )
    return Report(
        data={"servers": len(filters), "tools": count, "findings": [finding.to_dict() for finding in found]},
        text=lambda: "\n".join(map(one_line, _lines(found, len(filters), count))),
        error=error,
    )


def findings(host: Host, names: Sequence[str]) -> list[Finding]:
    """Audit what the last syncs of servers found."""
    from pflow_mcp_plugin.trust import tool_checks
    from pflow_mcp_plugin.trust.name_index import readings

    known, filters = catalog(host), _filters(host)

    def allowed(server: str, tool: str) -> bool:
        return server in filters and filters[server].allows(tool)

    # Node types that a tool's name could be mistaken for; few names look like any other.
    named = (tool for server in names for tool in tool_checks.readable_names(known, server))
    imitated = set()
    for look in {reading.replace("_", "-") for tool in named for reading in readings(tool)}:
        with suppress(PflowError):  # a source that cannot be read
            if host.registry.find(look) is not None:
                imitated.add(look)
    return list(tool_checks.audit(known, names, nodes=imitated, allowed=allowed))


def notes(host: Host, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the findings of `pflow mcp audit` on each server, as the notes that `pflow mcp sync` shows."""
    from pflow_mcp_plugin.trust import tool_checks

    found = findings(host, names)
    return {name: tuple(tool_checks.notes(name, [it for it in found if it.server == name])) for name in names}


def _filters(host: Host) -> dict[str, ToolFilter]:
    store = server_store(host)
    filters = {}
    configured = set(store.names())
    for server in catalog(host).servers():
        if server in configured:
            try:
                filters[server] = store.get(server).tools
            except PflowError:  # `config check` reports mistakes in a config
                filters[server] = ToolFilter()
    return filters


def _lines(found: Sequence[Finding], servers: int, tools: int) -> Iterator[str]:
    checked = f"{count_text(tools, 'tool')} of {count_text(servers, 'server')}"
    if not found:
        yield f"Checked {checked}: nothing found"
        return
    last = ("", "")
    for finding in found:
        place = (finding.server, finding.tool)
        if place != last:
            yield " ".join(filter(None, place))
        last = place
        yield f"  {finding.severity}: {finding.rule}: {finding.where} {finding.message}"
    yield ""
    for rule, step in dict.fromkeys((finding.rule, finding.next_step) for finding in found):
        yield f"{rule}: {step}"
    count = Counter(finding.severity for finding in found)
    parts = [count_text(count[kind], kind) for kind in ("error", "warning")]
    yield f"Checked {checked}: {', '.join(parts)}"
