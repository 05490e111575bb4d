"""The embedded host's runner: checks, compiles and runs workflows, inside the contexts of plugins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from pflow_mcp_plugin.contract import (
    THE_USER,
    Entry,
    Host,
    Interface,
    Outcome,
    PflowError,
    Problem,
    RunControl,
    Runner,
    RunOptions,
    RunOrigin,
)
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.contract.problems import advice, errors_in
from pflow_mcp_plugin.contract.run_requests import USUAL_OPTIONS
from pflow_mcp_plugin.host.foreign_code import EndingSignals, foreign_code, interrupts_kept
from pflow_mcp_plugin.host.plugins import Plugin, Plugins
from pflow_mcp_plugin.host.retention import remove_outdated
from pflow_mcp_plugin.host.run_limits import read_limits
from pflow_mcp_plugin.host.running.current_run import CurrentRun
from pflow_mcp_plugin.host.running.run_report import (
    exit_code_of,
    failed_items,
    handled_failures,
    interrupted,
    must_succeed,
    redacted,
    with_done,
)
from pflow_mcp_plugin.host.running.trace_recorder import RunWatcher
from pflow_mcp_plugin.host.workflow import (
    ChangedEntries,
    Checked,
    Compiled,
    NodeTypes,
    WorkflowPlace,
    bind_inputs,
    check_workflow,
    load_workflow,
    normalise,
    opened,
    trusted,
)
from pflow_mcp_plugin.host.workflow.coercion import TypeMismatch, coerce
from pflow_mcp_plugin.host.workflow.compilation import check_lock, denied_flows, plan_of
from pflow_mcp_plugin.host.workflow.document_reader import SCHEMA_FILE
from pflow_mcp_plugin.host.workflow.findings import listing, refusal, said, unwritten
from pflow_mcp_plugin.host.workflow.templates import literal
from pflow_mcp_plugin.host.workflow.workflow_document import EXTRA, WORKFLOW_NODE, broken_texts, secret_values
from pflow_mcp_plugin.host.workflow.workflow_reads import own_type
from pflow_mcp_plugin.redaction import Redactor
from pflow_mcp_plugin.schemas.schema_reader import table_of
from pflow_mcp_plugin.storage import StoreError, decode_json, is_descriptor
from pflow_mcp_plugin.storage.json_and_toml import is_too_deep
from pflow_mcp_plugin.terminal.similar_names import did_you_mean

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract import Decision, NodeOutcome
    from pflow_mcp_plugin.host.running.recorded_run import RecordedRun
    from pflow_mcp_plugin.host.running.resumption import EarlierRun
    from pflow_mcp_plugin.host.running.run_record import RecordedStep
    from pflow_mcp_plugin.host.workflow.data_flows import FoundFlows


_Context = AbstractContextManager[object]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class WorkflowRunner(Runner):
    """Checks, compiles and runs workflows, inside the contexts that plugins offer.

    `place` is where the workflows are, and where the workflows that they run are looked up; `options` apply
    to each run and check.
    """

    _host: Host
    _given: NodeTypes = attrs.field(alias="types")
    _plugins: Plugins
    _place: WorkflowPlace = attrs.field(
        default=attrs.Factory(lambda self: WorkflowPlace(library=self._host), takes_self=True)
    )
    _options: RunOptions = USUAL_OPTIONS

    @property
    def _types(self) -> NodeTypes:
        return ChangedEntries(self._given, trusted) if self._options.trust_readonly else self._given

    def validate(self, workflow: JSONObject) -> Sequence[Problem]:
        checked = self._checked(workflow)
        return (*self._problems(checked), *denied_flows(checked, self._host.paths.config))

    def validate_flows(self, workflow: JSONObject) -> tuple[Sequence[Problem], FoundFlows]:
        from pflow_mcp_plugin.host.flow_policy import FlowPolicy, read_policy
        from pflow_mcp_plugin.host.workflow.data_flows import find_flows

        checked = self._checked(workflow)
        policy = read_policy(self._host.paths.config) or FlowPolicy()
        found = find_flows(checked, policy, every=True)
        return (*self._problems(checked), *found.problems), found

    def _checked(self, workflow: JSONObject) -> Checked:
        return check_workflow(workflow, self._types, place=self._place)

    def _problems(self, checked: Checked) -> Sequence[Problem]:
        return (*checked.problems, *checked.unmet, *self._lock_problems(checked))

    def _lock_problems(self, checked: Checked) -> Iterable[Problem]:
        if not self._options.locked:
            return ()
        return check_lock(checked, self._place.file, self._types, self._host, self._plugins)

    def schema(self) -> dict[str, JSON]:
        return decode_json(SCHEMA_FILE, SCHEMA_FILE.read_bytes())

    def interface(self, workflow: JSONObject) -> Interface:
        from pflow_mcp_plugin.host.workflow.sub_workflows import workflow_interface

        return workflow_interface(self._checked(workflow), workflow)

    def compile(
        self, workflow: JSONObject, name: str = "", inputs: Mapping[str, object] | None = None
    ) -> Compiled:
        """Check and compile a workflow with the runner's options, for a run if it has inputs.

        The error lists every problem.
        """
        given = None if inputs is None else frozenset(inputs)
        checked = check_workflow(workflow, self._types, given, self._place, inputs)
        bound, unbound = ({}, []) if inputs is None else bind_inputs(checked.document, inputs)
        unbound += broken_texts(bound)
        problems = (*checked.problems, *self._lock_problems(checked))
        denied = denied_flows(checked, self._host.paths.config, inputs or ())
        if errors := errors_in([*problems, *unbound, *denied]):
            raise refusal(name, errors)
        plan = plan_of(name, checked, self._host, self._plugins)
        compiled = attrs.evolve(plan, warnings=problems, unmet=checked.unmet, source=table_of(workflow))
        if self._options.no_cache:
            return compiled.cached(None)
        return compiled if self._options.cache is None else _with_reuse(compiled, self._options.cache)

    def run(
        self,
        workflow: JSONObject,
        inputs: Mapping[str, object],
        *,
        name: str = "",
        trace: bool = True,
        origin: RunOrigin = THE_USER,
        control: RunControl | None = None,
    ) -> Outcome:
        compiled = self.compile(workflow, name or "workflow", inputs)
        return self.run_compiled(compiled, inputs, trace=trace, origin=origin, control=control)

    def resume(
        self,
        run_id: str | None,
        inputs: Mapping[str, object],
        *,
        decisions: Mapping[str, Decision] | None = None,
        origin: RunOrigin | None = None,
        control: RunControl | None = None,
    ) -> Outcome:
        from pflow_mcp_plugin.host.running.recorded_run import runs_folder
        from pflow_mcp_plugin.host.running.resumption import EarlierRun
        from pflow_mcp_plugin.host.running.verification import try_recipes

        owner = None if origin is None else origin.owner
        with EarlierRun.opened(runs_folder(self._host), run_id, owner) as earlier:
            earlier.require_folder()
            # Asked again for a client, the question could be about something else when the user answers.
            if origin is not None and not decisions and (question := earlier.question()) is not None:
                raise question
            earlier.decide((decisions or {}).items())
            # A runner without options of its own takes those of the run, if the run is the user's.
            is_usual = origin is None and self._options == USUAL_OPTIONS
            options = earlier.options if is_usual else self._options
            runner = self.at(earlier.place).with_options(options)
            try_recipes(earlier.undecided, earlier.decide, runner, self._host, options, origin or THE_USER)
            if (refusal := earlier.refusal()) is not None:
                raise refusal
            values = {**earlier.inputs(earlier.workflow), **inputs}
            compiled = runner.compile(earlier.workflow, earlier.place.name, values)
            return runner.run_compiled(compiled, values, origin=origin, control=control, resumed=earlier)

    def run_compiled(  # noqa: PLR0913 - what makes a run
        self,
        compiled: Compiled,
        inputs: Mapping[str, object],
        *,
        trace: bool = True,
        origin: RunOrigin | None = None,
        control: RunControl | None = None,
        watcher: RunWatcher | None = None,
        resumed: EarlierRun | None = None,
    ) -> Outcome:
        """Run a workflow compiled for these inputs, and write the trace.

        An error is raised if the run would certainly reach a node for which this machine lacks something.
        With `resumed`, the run goes on where that one ended, and has its origin by default.
        """
        run, values = self._begun(compiled, inputs, origin, control, watcher, resumed, trace=trace)
        reuse = None
        if any(node.ttl is not None for node in compiled.every()):
            from pflow_mcp_plugin.host.running.result_reuse import open_reuse

            reuse = open_reuse(run, self._plugins)
        outputs: Mapping[str, object] = {}
        error: PflowError | None = None
        with EndingSignals() as signals:
            try:
                run.check()
                contexts = run_contexts(run, self._plugins)
                # Twice: plugins must see an interruption of the nodes, and their clean-up may be interrupted
                # too.
                with interrupts_kept(), contexts, interrupts_kept(), run.cancellable():
                    # Late: servers that plugins started boot during these imports, and pocketflow imports
                    # asyncio.
                    from pflow_mcp_plugin.host.running.attempts import Attempts
                    from pflow_mcp_plugin.host.running.flow import build_flow, collect_outputs
                    from pflow_mcp_plugin.host.running.shared_store import Values

                    root = {**values, "__run__": run}
                    attempts = Attempts(run, Values(compiled.document, root), reuse=reuse)
                    build_flow(compiled, attempts).run(root)
                    outputs = collect_outputs(attempts)
                error = must_succeed(run) if self._options.items_must_succeed else None
            except PflowError as failure:
                outputs, error = {}, interrupted(run) if run.cancelled() else failure
            except KeyboardInterrupt:
                outputs, error = {}, interrupted(run)
            run.recorder.outputs = outputs
            signals.over = True
            if reuse is not None:
                reuse.close()
            left = run.record.end(error) if run.record else []
            # Still inside: a second signal must not end the program before the trace is written.
            outcome = self._outcome(run, outputs, error, trace=trace, left=left)
        return attrs.evolve(outcome, exit_code=signals.exit_code or outcome.exit_code)

    def _begun(  # noqa: PLR0913 - what makes a run
        self,
        compiled: Compiled,
        inputs: Mapping[str, object],
        origin: RunOrigin | None,
        control: RunControl | None,
        watcher: RunWatcher | None,
        resumed: EarlierRun | None,
        *,
        trace: bool,
    ) -> tuple[CurrentRun, Mapping[str, Any]]:
        """Begin to run a compiled workflow; return the run and the values of its inputs, both recorded."""
        lacking = errors_in(self._types.unmet(compiled.required())) if compiled.unmet else ()
        if lacking:
            raise refusal(compiled.name, lacking, "config")
        if origin is None:  # a resumed run stays that of its owner
            origin = RunOrigin(owner=resumed.head["owner"]) if resumed else THE_USER
        run = CurrentRun(
            self._host,
            compiled.workflow,
            origin,
            control,
            expected=compiled.size,
            watcher=watcher,
            run_id=resumed.run_id if resumed else "",
        )
        run.locked = self._options.locked
        for warning in (*compiled.warnings, *compiled.unmet):
            run.warn(warning)
        values, _ = bind_inputs(compiled.document, inputs)
        run.add_secrets(secret_values(compiled.document, values))
        if not trace:
            run.recorder.files = None  # nothing shows the values
        run.recorder.given(values)
        run.record = self._recorded(run, compiled, values, resumed, trace=trace)
        run.recorder.enter = run.record.enter if run.record else None
        return run, values

    def _recorded(
        self,
        run: CurrentRun,
        compiled: Compiled,
        values: Mapping[str, Any],
        resumed: EarlierRun | None,
        *,
        trace: bool,
    ) -> RecordedRun | None:
        limits = read_limits(self._host.paths.config, self._options)
        kept = resumed is not None or (trace and _is_worth_recording(compiled))
        if not (kept or limits):
            return None
        from pflow_mcp_plugin.host.running.recorded_run import RecordedRun
        from pflow_mcp_plugin.host.running.result_key import folder_now

        keeping = {node.ref.id for node in compiled.every() if node.constructs.keep}
        secret = [name for name, spec in compiled.document.inputs.items() if spec.secret and name in values]
        head: dict[str, Any] = {
            "name": compiled.name,
            "workflow": compiled.source,
            "file": str(self._place.file.absolute()) if self._place.file else "",
            "folder": folder_now(),
            "inputs": {name: value for name, value in values.items() if name not in secret},
            "secret_inputs": secret,
            "options": attrs.asdict(self._options),
            "owner": run.origin.owner,
            "trace": {**run.recorder.head(), "inputs": run.recorder.sample(values)},
        }
        return RecordedRun(
            compiled,
            head,
            run,
            run.recorder,
            record=resumed.begin(keeping) if resumed else None,
            only_failed=resumed is not None and resumed.only_failed,
            limits=limits,
            kept=kept,
        )

    def _outcome(
        self,
        run: CurrentRun,
        outputs: Mapping[str, object],
        error: PflowError | None,
        *,
        trace: bool,
        left: Sequence[RecordedStep],
    ) -> Outcome:
        recorder, settings = run.recorder, self._host.settings
        if left and error is not None:
            from pflow_mcp_plugin.host.running.recorded_run import decisions

            error.details["run_id"] = run.run_id
            error.details["undecided"] = [step.to_dict() for step in left]
            error.suggestions = (*error.suggestions, *decisions(run.run_id, left))
        elif error is not None and run.record and run.record.goes_on_after(error):
            go_on = f"To go on where it ended: {run.record.resuming}"
            if "loop" in error.details:  # completed steps count again
                go_on = f"To go on with the loop fixed: {run.record.resuming} --workflow FILE"
            error.suggestions = (*error.suggestions, go_on)
        if error is not None:
            redacted(with_done(error, recorder.done), run.redactor)
        trace_path = None
        if trace:
            try:
                trace_path = recorder.write(self._host.paths.state / "traces", error)
            except StoreError as failure:
                run.warn(advice("", f"The trace was not written: {failure.message}"))
        is_told = error is not None or run.watcher.shows_handled
        handled = () if is_told else handled_failures(recorder.steps)
        for warning in (*handled, *failed_items(recorder.steps, run.run_id if trace_path else "")):
            run.warn(warning)
        known = settings.get if settings else lambda _: None
        is_open = bool(left or (run.record and run.record.question))
        remove_outdated(self._host.paths, known, self._host.report)
        self._host.run_ended()
        return Outcome(
            success=error is None,
            outputs=outputs,
            run_id=run.run_id,
            trace_path=trace_path,
            error=error,
            steps=len(recorder.steps),
            exit_code=exit_code_of(error, recorder.steps, is_open=is_open),
            checkpoint={} if error is None else recorder.checkpoint(),
            warnings=run.warnings,
            shown=recorder.shown,
        )

    def run_node(
        self,
        node_type: str,
        params: JSONObject,
        *,
        origin: RunOrigin = THE_USER,
        control: RunControl | None = None,
        watcher: RunWatcher | None = None,
        allow_extra: bool = False,
    ) -> NodeOutcome:
        """Check, compile and run a workflow of one node; with `allow_extra` it takes undeclared params.

        `${...}` in its params is text, not a template. If they are invalid, the error lists every problem.
        """
        from pflow_mcp_plugin.contract import NodeOutcome
        from pflow_mcp_plugin.host.running.value_excerpt import LONGEST_TEXT, Excerpt, sampled

        entry = self._host.registry.get(node_type)
        values = _checked_params(opened(entry) if allow_extra else entry, params)
        if entry.node == WORKFLOW_NODE and WORKFLOW_NODE in params:
            values[WORKFLOW_NODE] = params[WORKFLOW_NODE]  # its templates are its own
        node: dict[str, JSON] = {"id": entry.node, "type": entry.node, "params": values}
        node |= {EXTRA: True} if allow_extra else {}
        control = control or RunControl()
        with unwritten(f"Node {entry.node}"):
            compiled = self.compile({"nodes": [node]}, node_type, {})
            outcome = self.run_compiled(compiled, {}, origin=origin, control=control, watcher=watcher)
        redactor = Redactor(control.secrets)
        structure = sampled(dict(outcome.outputs), lambda it: Excerpt(redactor, LONGEST_TEXT).of(it))
        return NodeOutcome(node=entry.node, outcome=outcome, structure=structure)

    def read(self, content: str, name: str) -> JSONObject:
        return load_workflow(content, name)

    def read_file(self, path: Path) -> JSONObject:
        from pflow_mcp_plugin.host.workflow.sub_workflows import self_contained
        from pflow_mcp_plugin.host.workflow.workflow_text import read_workflow

        workflow = read_workflow(path)
        beside = None if is_descriptor(str(path)) else path
        place = WorkflowPlace(library=self._host, file=beside, name=str(path))
        checked = check_workflow(workflow, self._types, place=place)
        return self_contained(workflow, checked, str(path), self._types.upgrade)

    def with_options(self, options: RunOptions) -> WorkflowRunner:
        return attrs.evolve(self, options=options)

    def allowing_extra(self) -> WorkflowRunner:
        return attrs.evolve(self, types=ChangedEntries(self._given, opened))

    def at(self, place: WorkflowPlace) -> WorkflowRunner:
        return attrs.evolve(self, place=attrs.evolve(place, library=self._host))

    def normalise(self, workflow: JSONObject) -> JSONObject:
        normal: JSONObject = normalise(workflow, self._types.upgrade)
        return normal


def _is_worth_recording(compiled: Compiled) -> bool:
    nodes = list(compiled.every())
    entries = [node.ref.entry for node in nodes]
    if not all(entry.lasting for entry in entries):
        return False
    acts = any(entry.purity != "flow_safe" or own_type(entry) == "ask" for entry in entries)
    return len(nodes) > 1 or acts or any(node.constructs.batch for node in nodes)


def _with_reuse(compiled: Compiled, seconds: float) -> Compiled:
    cached = compiled.cached(seconds)
    if any(node.ttl is not None for node in cached.every()):
        return cached
    claims = any(node.ref.entry.claimed_purity for node in cached.every())
    step = "If you trust the nodes that claim to be read-only: --trust-readonly" if claims else ""
    message = "No node of this workflow can be cached: none is known to be read-only"
    note = Problem(message=message, suggestion=step, severity="warning", kind="usage")
    return attrs.evolve(cached, warnings=(*cached.warnings, note))


def _checked_params(entry: Entry, given: JSONObject) -> dict[str, JSON]:
    problems = tuple(_param_problems(entry, given))
    if problems:
        first, *others = problems
        many = f"Node {entry.node} cannot be run with these params: {len(problems)} problems"
        steps = () if others else (first.suggestion,)
        raise PflowError(
            many if others else first.message, suggestions=steps, problems=problems, kind="usage"
        )
    return {name: literal(value) for name, value in given.items()}


def _param_problems(entry: Entry, given: JSONObject) -> Iterator[Problem]:
    fields, shown = entry.interface.fields, [field.key for field in entry.interface.params]
    see = f"pflow registry describe {entry.node}"
    for name, value in given.items():
        named = f"Parameter {name} of node {entry.node}"
        if is_too_deep(value):
            yield Problem(message=f"{named} is nested too deeply", suggestion="Flatten it")
        elif name in fields:
            try:
                coerce(value, fields[name])
            except TypeMismatch as error:
                message = f"{named} must be {error.expected}, got {error.given}"
                yield Problem(message=message, suggestion=f"Run: {see}")
        elif not entry.interface.open:
            hint = did_you_mean(name, shown, f"It takes {listing(shown)}")
            yield Problem(message=f"Node {entry.node} has no parameter {name}", suggestion=hint)
    lacking = [it.key for it in entry.interface.params if it.required and it.key not in given]
    if lacking:
        names = "parameter" if len(lacking) == 1 else "parameters"
        message = f"Node {entry.node} needs {names} {', '.join(lacking)}"
        yield Problem(message=message, suggestion=f"Give {lacking[0]}=...; run: {see}")


@contextmanager
def run_contexts(run: CurrentRun, plugins: Plugins) -> Iterator[None]:
    """Enter the plugins' contexts for the runner, in their order; leave them in reverse.

    A plugin that fails to offer or leave its context is reported; the others are not affected. Ctrl-C cancels
    the run before the contexts are left.
    """
    offers: list[tuple[Plugin, _Context]] = []
    entered: list[tuple[Plugin, _Context]] = []
    failure: PflowError | None = None
    try:
        for plugin, call in plugins.implementations("pflow_run_context"):
            with plugins.reporting(plugin, "could not take part in the run"):
                if (offer := call(run)) is not None:
                    offers.append((plugin, offer))
        for plugin, context in offers:
            preparing = partial(_failed, plugin, "could not prepare the run")
            with foreign_code(preparing, passing=(PflowError,)):
                context.__enter__()
            entered.append((plugin, context))
        yield
    except BaseException as error:
        failure = error if isinstance(error, PflowError) else None
        if failure is None:
            run.cancel()
            failure = PflowError("The run was interrupted", kind="interrupted")
        raise
    finally:
        with ExitStack() as stack:  # each is left, even if leaving another one raises
            for plugin, context in entered:
                stack.callback(_leave, run, plugin, context, failure)


def _leave(run: CurrentRun, plugin: Plugin, context: _Context, failure: PflowError | None) -> None:
    try:
        with foreign_code(partial(_failed, plugin, "failed to clean up after the run")):
            context.__exit__(type(failure) if failure else None, failure, None)
    except PflowError as error:  # the run's outcome is already decided
        if error.__cause__ is not failure:
            text = run.redactor.text(error.message)
            run.warn(Problem(message=text, severity="warning", kind="execution", source=plugin.name))


def _failed(plugin: Plugin, doing: str, error: BaseException) -> PflowError:
    return PflowError(f"Plugin {plugin.label} {doing}: {said(error)}", details={"plugin": plugin.name})
