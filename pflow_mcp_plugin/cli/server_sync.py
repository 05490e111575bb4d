"""The work of `pflow mcp sync`: asks servers for their tools, and shows what was found."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial

import attrs
import click

from pflow_mcp_plugin.catalog.tool_catalog import approval_command
from pflow_mcp_plugin.cli.approve import approve_server
from pflow_mcp_plugin.cli.audit import notes
from pflow_mcp_plugin.cli.interaction import is_interactive, tell
from pflow_mcp_plugin.cli.login import logged_in
from pflow_mcp_plugin.config import server_schema
from pflow_mcp_plugin.config.expansion import starts_at_once
from pflow_mcp_plugin.config.server_store import ServerStore
from pflow_mcp_plugin.contract import Host, PflowError, Problem, Report
from pflow_mcp_plugin.contract.problems import errors_in
from pflow_mcp_plugin.discovery.lock_check import launch_refusal, list_locked
from pflow_mcp_plugin.discovery.lock_file import LockFile
from pflow_mcp_plugin.discovery.servers import (
    catalog,
    current_launch,
    lookup,
    open_pool,
    pins,
    server_store,
    with_startup_timeout,
)
from pflow_mcp_plugin.discovery.servers import servers as known_servers
from pflow_mcp_plugin.discovery.tool_sync import ListTools, Synced
from pflow_mcp_plugin.discovery.tool_sync import sync as sync_all
from pflow_mcp_plugin.exchange import Launch, Listing
from pflow_mcp_plugin.registration.tool_source import ToolSource
from pflow_mcp_plugin.terminal.human_units import count_text, duration_text, running_text
from pflow_mcp_plugin.terminal.live_lines import SOON, LiveLines, spinner
from pflow_mcp_plugin.terminal.looks import (
    Column,
    Part,
    Table,
    barred_lines,
    one_line,
    padded,
    printable,
    text_width,
)
from pflow_mcp_plugin.trust.launch_identity import difference, same
from pflow_mcp_plugin.trust.launch_identity import shown as shown_launch
from pflow_mcp_plugin.trust.pins import NOTHING

_NAMED = 10
_NOTHING = "No MCP server is configured. Add one: pflow mcp add NAME -- COMMAND ARGS..."


def sync_servers(
    host: Host,
    names: Sequence[str] | None = None,
    *,
    shown: bool = False,
    lock: LockFile | None = None,
    startup_timeout: float | None = None,
) -> Report:
    """Ask servers for their tools, and the user about what was found; return what is shown of it.

    Raises `McpError` if a named server is not configured; then nothing was started. By default, the servers
    are those in the lock file, or every enabled one; with a lock file, nothing that differs from it is
    stored. With `shown`, the user has seen, and thereby approved, what is started.
    """
    store, known = server_store(host, duplicates=True), catalog(host)
    chosen = list(names or (lock.servers if lock else ()))
    for name in chosen:
        store.table(name)  # raises the error about an unknown server, with similar names
    chosen = chosen or enabled(store)
    refused: dict[str, PflowError] = {}
    for name in chosen:
        # Nobody is asked about a launch that the lock file refuses. The sync itself reports other mistakes.
        with suppress(PflowError):
            if lock and (error := launch_refusal(lock, store.get(name))):
                refused[name] = error
    chosen = [name for name in chosen if name not in refused]
    declined = [] if shown else [*_declined(host, chosen)]

    ask = partial(_asked, host, lock=lock, startup_timeout=startup_timeout)
    asked = ask([name for name in chosen if name not in declined])
    asked |= ask([each.server for each in asked.values() if _retyped(host, store, each)])
    asked |= ask([each.server for each in asked.values() if logged_in(host, each.error)])
    results = [_reviewed(host, each) for each in asked.values()]
    for name in declined:
        message = f"Server {name} was not started: its current launch is not approved"
        step = f"Correct its config, or run: pflow mcp approve {name}"
        refused[name] = PflowError(message, suggestions=(step,), kind="validation")
    results += [Synced(server=name, error=error) for name, error in refused.items()]
    host.refresh("mcp")
    found = notes(host, [synced.server for synced in results if not synced.error])
    results = [attrs.evolve(it, notes=(*it.notes, *found.get(it.server, ()))) for it in results]
    results = _with_affected(host, results)
    clashes = ToolSource(known, store).clashes({synced.server for synced in results})
    for problem in (*clashes, *_preset_differences(host, results)):
        host.report(problem)
    return _report(results)


def enabled(store: ServerStore) -> list[str]:
    """Return the servers that `pflow mcp sync` asks if the user names none: all that are not disabled."""
    names = []
    for name in store.names():
        try:
            disabled = store.get(name).disabled
        except PflowError:
            disabled = False  # the sync itself reports the mistake
        if not disabled:
            names.append(name)
    return names


def _declined(host: Host, names: Iterable[str]) -> Iterator[str]:
    """Show in full what a sync starts for the first time; yield the servers that the user declines to start.

    What replaces an approved launch is asked about on a terminal only; elsewhere it is started, and its tools
    are withheld.
    """
    for name in names:
        with suppress(PflowError):  # the sync itself reports what is wrong
            server, pinned = server_store(host).get(name), pins(host).read(name)
            launch = current_launch(host, name)
            if pinned is None:
                tell(f"First sync of server {name}: {shown_launch(launch)}")
            elif not same(pinned.launch, launch) and server.trust != "auto":
                old, new = difference(pinned.launch, launch)
                tell(f"Server {name} was approved as: {old}\n  It is now started by: {new}")
                if not is_interactive():
                    continue
                agreed = click.confirm("Approve this and start it?", default=False, err=True)
                if agreed and current_launch(host, name) == launch:  # it may have changed meanwhile
                    pins(host).approve_launch(name, launch)
                else:
                    yield name


def _asked(
    host: Host, names: Sequence[str], *, lock: LockFile | None, startup_timeout: float | None
) -> dict[str, Synced]:
    known = known_servers(host.paths)
    with _progress(names) as on_done, open_pool(host) as pool:

        def list_tools(launch: Launch) -> Listing:
            return pool.list_tools(with_startup_timeout(launch, startup_timeout))

        ask: ListTools = partial(list_locked, list_tools, lock, known.store) if lock else list_tools
        settings = lookup(host)
        found = sync_all(names, known, ask, settings, on_done=on_done, at_once=starts_at_once(settings))
    return {each.server: each for each in found}


@contextmanager
def _progress(names: Sequence[str]) -> Iterator[Callable[[Synced], None]]:
    stream = sys.stderr
    if stream is None or not stream.isatty():  # None after `2>&-`
        yield lambda _: None
        return
    began = time.monotonic()
    ended: dict[str, list[Part]] = {}
    room = max(map(text_width, names), default=0)

    def line(mark: Part, name: str, took: float) -> list[Part]:
        return [mark, (f" {padded(printable(name), room)}{running_text(took):>10}", "")]

    def now() -> Iterator[list[Part]]:
        took = time.monotonic() - began
        if took > SOON:
            # Those that have not ended come last, where they are seen.
            yield from ended.values()
            yield from (line((spinner(), "good"), name, took) for name in names if name not in ended)

    def note(synced: Synced) -> None:
        with lines.lock:
            mark: Part = ("\u2717", "bad") if synced.error else ("\u2713", "good")
            told = f"  {one_line(synced.error.message)}" if synced.error else ""
            ended[synced.server] = [*line(mark, synced.server, time.monotonic() - began), (told, "bad")]

    lines = LiveLines(stream, now)
    lines.start()
    try:
        yield note
    finally:
        lines.close()


def _retyped(host: Host, store: ServerStore, synced: Synced) -> bool:
    """Ask, on a terminal, whether to set the `type` that the sync found a server to use."""
    kind = synced.error.details.get("speaks") if synced.error else None
    if not isinstance(kind, str) or not is_interactive() or synced.server in store.project_folders():
        return False
    tell(f"{synced.error.message}." if synced.error else "")
    if not click.confirm(f'Set type = "{kind}" for {synced.server} in {store.path}?', default=True, err=True):
        return False
    store.add({synced.server: {**store.raw()[server_schema.SERVERS][synced.server], "type": kind}})
    pins(host).approve_launch(synced.server, current_launch(host, synced.server))
    return True


def _reviewed(host: Host, synced: Synced) -> Synced:
    comparison = synced.comparison
    if not (comparison.unapproved or comparison.withheld) or not is_interactive():
        return synced
    tell("\n".join((f"{synced.server}:", *comparison.lines())))
    if not click.confirm("Approve this change?", default=False, err=True):
        return synced
    try:
        approve_server(host, synced.server, shown=comparison)
    except PflowError as error:
        return attrs.evolve(synced, error=error)
    return attrs.evolve(synced, comparison=NOTHING, is_approved=True)


def _with_affected(host: Host, results: Sequence[Synced]) -> list[Synced]:
    changed = [synced for synced in results if synced.comparison or synced.changes.removed]
    if not changed or host.library is None or host.runner is None:
        return [*results]
    failing: dict[str, str] = {}
    for saved in host.library.saved():
        with suppress(PflowError):  # one that cannot be read is not affected by this
            workflow = host.library.get(saved.name)
            if errors_in(host.runner.validate(workflow)):
                failing[saved.name] = json.dumps(workflow)

    def affected(synced: Synced) -> tuple[str, ...]:
        node = f'"mcp-{synced.server}-'
        return tuple(name for name, text in failing.items() if synced in changed and node in text)

    return [attrs.evolve(synced, affected=affected(synced)) for synced in results]


def _preset_differences(host: Host, results: Sequence[Synced]) -> Iterator[Problem]:
    store, known = server_store(host), catalog(host)
    servers = [store.get(synced.server) for synced in results if not synced.error]
    if not any(server.preset for server in servers):
        return
    from pflow_mcp_plugin.presets import collection

    offered = collection.collect(host).offered
    for server in servers:
        content = known.file(server.name)
        if content and server.preset in offered:
            found = collection.manifest_difference(offered[server.preset], server, content.manifest_hash)
            yield from (found,) if found else ()


def _report(results: Sequence[Synced]) -> Report:
    failed = [(synced.server, synced.error) for synced in results if synced.error]
    error: PflowError | None = failed[0][1] if failed else None
    if error and len(results) == 1:
        return Report(data=[attrs.evolve(results[0], error=None).to_dict()], error=error)
    if failed:
        steps: dict[str, None] = {}
        for server, failure in failed:
            # Only these name the next step; for other failures, a test shows more.
            says_more = failure.exit_code == 2 or failure.details.get("login")
            own = failure.suggestions if says_more else ()
            steps |= dict.fromkeys(own or [f"Run: pflow mcp test {server}"])
        is_refused = any(failure.exit_code == 2 for _, failure in failed)
        names = ", ".join(server for server, _ in failed)
        error = PflowError(
            f"{len(failed)} of {len(results)} servers could not be synced: {names}",
            suggestions=tuple(steps),
            kind="validation" if is_refused else "connection",
        )
    return Report(
        data=[synced.to_dict() for synced in results],
        text=lambda: (_table(results),) if results else _NOTHING,
        error=error,
    )


def _table(results: Sequence[Synced]) -> Table:
    heads: list[list[Part]] = []
    below: dict[int, list[str]] = {}
    for number, synced in enumerate(results):
        if error := synced.error:
            message, *more = barred_lines(str(error)) or [""]
            heads.append([(f"{synced.server}: failed: {message}", "bad")])
            below[number] = [f"  {line}" for line in (*more, *map(one_line, error.suggestions))]
            continue
        # Many of these lines contain a server's own text, which must not look like further lines.
        head, *below[number] = map(one_line, _findings(synced))
        heads.append([(head, "")])
    return Table(columns=(Column(whole=True),), rows=heads, below=below)


def _findings(synced: Synced) -> Iterator[str]:
    count = count_text(synced.tools_registered, "tool")
    left_out = synced.tools_discovered - synced.tools_registered - len(synced.skipped)
    without = f" ({left_out} more left out by its filter)" if left_out else ""
    yield f"{synced.server}: {count}{without}, {duration_text(synced.milliseconds)}"
    before, now = synced.versions
    if before != now:
        yield f"  version {now or 'unknown'}, before {before or 'unknown'}" + (
            "" if synced.changes else "; no tool changed"
        )
    elif not synced.changes:
        yield "  nothing changed" + (" since the last sync" if synced.comparison else "")
    if synced.is_approved:
        yield "  the change is approved"
    for mark, names in (("+", synced.changes.added), ("-", synced.changes.removed)):
        yield from (f"  {mark} {name}" for name in names[:_NAMED])
        if len(names) > _NAMED:
            yield f"  {mark} and {len(names) - _NAMED} more"
    shown_below = {tool.name for tool in synced.comparison.tools}
    for change in () if synced.is_approved else synced.changes.changed:
        if change.name not in shown_below:
            yield f"  ~ {change.name}: {change.kind}: {', '.join(change.fields)}"
    yield from (f"  {line}" for line in synced.comparison.lines())
    yield from _to_approve(synced)
    yield from (f"  ! {name} skipped: {reason}" for name, reason in synced.skipped)
    yield from (f"  ! {note}" for note in synced.notes)


def _to_approve(synced: Synced) -> Iterator[str]:
    comparison, command = synced.comparison, f"pflow mcp approve {synced.server}"
    if comparison.unapproved:
        yield f"  ! its tools are withheld until: {command}"
        return
    for tool in comparison.withheld:
        yield f"  ! withheld until: {approval_command(synced.server, tool)}"
    effect = "no saved workflow is affected"
    if synced.affected:
        effect = f"saved workflows that no longer run: {', '.join(synced.affected)}"
    if comparison:
        parts = [count_text(len(comparison.tools), "changed tool")] if comparison.tools else []
        parts += [count_text(len(comparison.new), "new tool")] if comparison.new else []
        parts += ["new instructions"] if comparison.instructions else []
        yield f"  {', '.join(parts)} not approved yet; {effect}; to approve: {command}"
    elif synced.affected:
        yield f"  {effect}"
