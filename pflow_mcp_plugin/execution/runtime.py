"""The runtime that the tool nodes of a run share: it resolves servers and tools, and makes the calls."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import attrs

from pflow_mcp_plugin import naming, workflow_chain
from pflow_mcp_plugin.catalog.tool_catalog import Catalog
from pflow_mcp_plugin.catalog.tool_file import READ_RESOURCE, ToolFile
from pflow_mcp_plugin.config.expansion import Lookup, VariableLookup, starts_at_once
from pflow_mcp_plugin.config.locations import sign_in_folder, stderr_folder
from pflow_mcp_plugin.config.server_store import ServerStore
from pflow_mcp_plugin.contract import Problem, Run, RunStep
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.discovery.servers import launch, servers
from pflow_mcp_plugin.errors import McpError, Where
from pflow_mcp_plugin.exchange import CallResult, Launch, ToolCall, setting
from pflow_mcp_plugin.execution.call_hooks import CallHooks
from pflow_mcp_plugin.execution.current_host import current_host
from pflow_mcp_plugin.schemas.schema_reader import Declaration, ResultForm, declaration, result_form
from pflow_mcp_plugin.storage import StoreError
from pflow_mcp_plugin.trust.launch_identity import completed, is_complete, launch_identity
from pflow_mcp_plugin.trust.tool_approval import launch_changed, withheld
from pflow_mcp_plugin.trust.tool_claims import idempotency_argument, is_safe_to_repeat
from pflow_mcp_plugin.types import Method, ToolRecord, plain_version

if TYPE_CHECKING:  # imported when the servers of a run have been started
    from pflow_mcp_plugin.client import Pool
    from pflow_mcp_plugin.client.kept_servers import Share
    from pflow_mcp_plugin.client.supervisor import OnStart
    from pflow_mcp_plugin.trust.tool_use import ToolUse

OnProgress = Callable[[ToolCall, float, float | None, str | None], None]
"""Called with the progress of a call: amount done, total, message."""


@attrs.frozen(kw_only=True)
class Target:
    """What the runtime resolves a server and a tool to; it has no `record` if the tool was never synced."""

    launch: Launch
    tool: str
    record: ToolRecord | None = None
    declared: Declaration | None = None  # its arguments
    use: ToolUse | None = None  # judges each use of it
    form: ResultForm = attrs.field(factory=ResultForm)

    @property
    def method(self) -> Method:
        return self.record.found.method if self.record else "tools/call"

    @property
    def approved(self) -> Collection[str]:
        # Messages may name the arguments of the approved version only.
        if self.record is None or self.declared is None or self.record.found is self.record.tool:
            return self.declared.properties if self.declared else ()
        return declaration(self.record.tool.input_schema).properties if self.record.is_approved else ()

    @property
    def where(self) -> Where:
        server = self.launch.server
        node = self.record.node if self.record else ""
        if self.tool in server.rename or not node:
            node = naming.node_name(server.name, server.rename.get(self.tool, self.tool))
        # Models read errors: a raw name that nobody approved could be a text for them.
        shown = self.record.tool.name if self.record else self.tool
        return Where(server=server.name, tool=shown, phase="call", node=node)

    @property
    def idempotency_argument(self) -> str:
        if self.record is None:
            return self.launch.server.idempotency_argument.get(self.tool, "")
        return idempotency_argument(self.record, self.launch.server)

    def safe_to_repeat(self, arguments: JSONObject) -> bool:
        """Whether the runtime may repeat this call: by its idempotency key, or a trusted claim."""
        if self.idempotency_argument and arguments.get(self.idempotency_argument):
            return True
        return self.record is not None and is_safe_to_repeat(self.record, self.launch.server)

    def with_key(self, arguments: JSONObject, step: RunStep | None) -> JSONObject:
        name = self.idempotency_argument
        key = step.idempotency_key() if name and step else ""
        if not name or not (key or arguments.get(name) in (None, "")):
            return arguments
        from uuid import uuid4

        return {**arguments, name: key or f"pflow-{uuid4().hex}"}


@attrs.define(kw_only=True, eq=False)
class Runtime:
    """The runtime of a run: resolves servers and tools once, and calls the tools from any thread."""

    _store: ServerStore
    _catalog: Catalog
    _lookup: Lookup
    _pool: Pool | Share
    _hooks: CallHooks
    _warn: Callable[[str], None]  # once per line
    _add_secrets: Callable[[Iterable[str]], None]  # values that must be redacted
    _progress: OnProgress
    _chain: Callable[[], Sequence[str]] = tuple  # of workflows that lead to the calls, see `workflow_chain`
    _locked: bool = False  # whether a server must report the version of its last sync
    _lock: Any = attrs.field(init=False, factory=threading.RLock)  # resolving a tool resolves its server
    _launches: dict[str, Launch] = attrs.field(init=False, factory=dict)
    _targets: dict[tuple[str, str], Target] = attrs.field(init=False, factory=dict)
    _warned: set[str] = attrs.field(init=False, factory=set)
    _cancelled: bool = attrs.field(init=False, default=False)

    def prepare(self, server: str) -> None:
        self._pool.prepare(self._launch(server))

    def launch_key(self, server: str) -> str:
        launch = self._launch(server)
        if not launch.server.command:
            return launch.key
        import json
        from hashlib import sha256

        from pflow_mcp_plugin.processes.process_group import child_environment

        # PATH decides which program runs, HOME which account it uses, TZ what time it is.
        environment = child_environment(launch.server.env, marker="")
        text = json.dumps([launch.key, sorted(environment.items())])
        return sha256(text.encode()).hexdigest()

    def target(self, server: str, tool: str) -> Target:
        """Resolve a tool once for all nodes of the run, and return it as the target of their calls.

        Raises `McpError` if the server must not be started, or if the tool is gone or not approved as it is.
        """
        with self._lock:
            if (server, tool) not in self._targets:
                ready, record = self._launch(server), self._catalog.named(server, tool)
                if record is not None:
                    target = self._of_record(ready, record)
                elif content := self._catalog.file(server):
                    raise _gone(content, tool)
                else:  # never synced: the server itself checks the arguments
                    target = Target(launch=ready, tool=tool)
                self._targets[server, tool] = target
            return self._targets[server, tool]

    def call(
        self,
        target: Target,
        arguments: JSONObject,
        node_id: str = "",
        run_id: str = "",
        step: RunStep | None = None,
    ) -> CallResult:
        """Check the arguments for a tool that the runtime resolved, and call it, in a run's step or without.

        If the call fails, `ran` of the `McpError` says whether it reached the tool.
        """
        arguments = target.with_key(arguments, step)
        if target.use is not None:
            arguments = target.use.check(arguments)
            if target.use.notice:
                self.warn(target.use.notice)
        call = ToolCall(
            server=target.launch.server.name,
            tool=target.tool,
            label=target.where.tool,
            arguments=arguments,
            method=target.method,
            node_id=node_id,
            run_id=run_id,
        )

        def checked(changed: ToolCall) -> ToolCall:
            nonlocal target
            if (changed.server, changed.tool) != (target.launch.server.name, target.tool):  # it is redirected
                target = self.target(changed.server, changed.tool)
            arguments = target.use.check(changed.arguments) if target.use else changed.arguments
            return attrs.evolve(changed, arguments=arguments)

        call = self._hooks.prepare(call, checked)
        then = target.record.info.version if target.record else ""
        locked_version = then if self._locked else None  # that of the lock file, which was compared before
        call = attrs.evolve(
            call, method=target.method, label=target.where.tool, locked_version=locked_version
        )
        send = partial(
            self._pool.call,
            target.launch,
            on_progress=partial(self._progress, call),
            safe_to_repeat=target.safe_to_repeat(call.arguments),
            chain=self._chain,
            step=step,
        )
        answer = self._hooks.around(send)(call)
        server, now = target.launch.server.name, answer.info.version
        if now and then and now != then:
            known = [plain_version(each) or "another" for each in (now, then)]
            self.warn(
                f"Server {server} has version {known[0]}, but was synced with version {known[1]} "
                f"(run: pflow mcp sync {server})"
            )
        return answer

    def cancel(self) -> None:
        self._cancelled = True
        self._pool.cancel()

    def warn(self, line: str) -> None:
        with self._lock:
            if line in self._warned:
                return
            self._warned.add(line)
        self._warn(line)

    def warn_of_changed_lists(self) -> None:
        """Warn at the end of a run about servers whose tools changed meanwhile.

        Some servers announce this after every start: only real differences from the sync are reported.
        """
        for ready in () if self._cancelled else self._pool.changed_lists():
            from pflow_mcp_plugin.trust.tool_difference import compare  # few servers announce a change

            server = ready.server.name
            synced = self._catalog.file(server)
            try:
                differs = bool(compare(synced.tools if synced else (), self._pool.list_tools(ready).tools))
            except McpError:  # the server announced a change that cannot be compared
                differs = True
            if differs:
                self.warn(
                    f"The tools of server {server} changed during the run, which continued with those "
                    f"of its last sync (run: pflow mcp sync {server})"
                )

    def _launch(self, server: str) -> Launch:
        with self._lock:
            if server not in self._launches:
                self._launches[server] = self._ready(server)
            return self._launches[server]

    def _ready(self, server: str) -> Launch:
        head = self._catalog.head(server)
        changed = head and launch_changed(head, self._store.get(server))
        if changed:
            raise _not_approved(changed, Where(server=server, phase="config"))
        ready = launch(server, self._store, self._catalog, self._lookup)
        changed = head and launch_changed(head, self._store.get(server), ready.variables)
        if changed:
            raise _not_approved(changed, Where(server=server, phase="config"))
        if head and head.launch and not is_complete(head.launch):
            # A sync by an older version did not note all of the launch; once added, later changes are
            # noticed.
            now = launch_identity(self._store.get(server), ready.variables)
            with suppress(StoreError):  # a read-only folder must not stop a server from being used
                self._catalog.mark(
                    server, lambda it: attrs.evolve(it, launch=completed(it.launch or {}, (now,)))
                )
        ready = attrs.evolve(ready, report=self._add_secrets)
        self._add_secrets(ready.secrets)
        for variable in ready.unset:
            self.warn(
                f"Server {server}: variable {variable} is not set and is passed as an empty string "
                f"(set it: {setting(variable)})"
            )
        if head and head.config_fingerprint and head.config_fingerprint != ready.fingerprint:
            self.warn(f"The config of server {server} changed since its sync (run: pflow mcp sync {server})")
        return ready

    def resource_target(self, server: str) -> Target:
        ready = self._launch(server)
        record = self._catalog.resource_reader(server)
        if record is None:
            synced = self._catalog.head(server) is not None
            why = "offers no resources" if synced else "is not synced, so its resources are unknown"
            raise McpError(
                f"Server {server} {why}",
                where=Where(server=server, tool=READ_RESOURCE.name, phase="call"),
                next_step=f"See its tools: pflow mcp tools {server}"
                if synced
                else f"Run: pflow mcp sync {server}",
                kind="not_found",
            )
        return self._of_record(ready, record)

    def _of_record(self, ready: Launch, record: ToolRecord) -> Target:
        target = Target(
            launch=ready,
            tool=record.found.name,
            record=record,
            declared=declaration(record.found.input_schema),
            form=result_form(record.found.output_schema),
        )
        problem = withheld(record, self._store.get(record.server))
        if problem:
            raise _not_approved(problem, target.where._replace(phase="config"))
        from pflow_mcp_plugin.trust.tool_use import ToolUse

        where = target.where._replace(phase="arguments")
        return attrs.evolve(target, use=ToolUse(record, where))


def _gone(synced: ToolFile, tool: str) -> McpError:
    from difflib import get_close_matches

    from pflow_mcp_plugin.execution.result import gone  # servers start before it is needed

    raw, when = synced.missed(tool)
    known = [each.name for each in synced.tools if each.name not in synced.new]
    near = get_close_matches(raw, known, n=1)
    return gone(Where(server=synced.server, tool=raw, phase="call"), when, *near)


def _not_approved(problem: Problem, where: Where) -> McpError:
    return McpError(problem.message, where=where, kind=problem.kind, next_step=problem.suggestion)


@contextmanager
def open_runtime(
    run: Run | None = None,
    *,
    progress: OnProgress = lambda *_: None,
    starting: OnStart = lambda _: lambda _: None,
) -> Iterator[Runtime]:
    """Open the runtime of a run, or one for single calls.

    Its connections are closed at the end, unless those of the run's caller are kept.
    """
    host = run.host if run else current_host()
    known = servers(host.paths)
    report = run.warn if run else host.report
    for problem in known.store.notices():  # before anything starts
        report(problem)

    def warn(line: str) -> None:
        report(Problem(message=line, severity="warning", kind="connection", source="mcp"))

    from pflow_mcp_plugin.client import Pool

    add_secrets = run.add_secrets if run else lambda _: None
    lookup, kept = VariableLookup(host.settings), known.kept
    opened = partial(
        Pool,
        stderr_folder=stderr_folder(host.paths),
        sign_in_folder=sign_in_folder(host.paths),
        starts_at_once=starts_at_once(lookup),
    )
    if run is not None and run.origin.keeper is not None:
        from pflow_mcp_plugin.client.kept_servers import KeptServers

        kept = run.origin.keeper.get(
            "mcp", lambda: KeptServers(lambda warn, on_start: opened(warn, on_start=on_start))
        )
    with kept.share(warn, starting, add_secrets) if kept else opened(warn, on_start=starting) as pool:
        runtime = Runtime(
            store=known.store,
            catalog=known.catalog,
            lookup=lookup,
            pool=pool,
            hooks=CallHooks(host.hook),
            warn=warn,
            add_secrets=add_secrets,
            progress=progress,
            chain=cache(partial(workflow_chain.below, run)) if run else tuple,
            locked=run is not None and run.locked,
        )
        if run:
            run.on_cancel(runtime.cancel)
        yield runtime
