"""The `workflow_*` tools that pflow serves, and `trace_read`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal

from pflow_mcp_plugin import workflow_chain
from pflow_mcp_plugin.contract import Decision, Outcome, PflowError, Problem, SavedWorkflow
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.contract.problems import errors_in
from pflow_mcp_plugin.redaction import REDACTED, Redactor
from pflow_mcp_plugin.server.envelopes import (
    ANY_OBJECT,
    DISCOVERING,
    FLAG,
    INTEGER,
    LOCAL_READING,
    NUMBER,
    RUN_BESIDE,
    TEXT,
    answer_schema,
    arguments_schema,
    discovery_answer,
    discovery_schema,
    failure,
    list_of,
    object_of,
    success,
)
from pflow_mcp_plugin.server.served_tool import (
    Claims,
    ServedRequest,
    ServedTool,
    library_of,
    shown,
    traces_of,
)
from pflow_mcp_plugin.server.workflow_argument import MOST_BYTES, given_workflow
from pflow_mcp_plugin.terminal.human_units import count_text


def discover(request: ServedRequest, arguments: Mapping[str, Any]) -> JSONObject:
    """Answer `workflow_discover` with the workflows in the host's library that fit a task."""
    return discovery_answer(library_of(request.host).discover(arguments["query"]), described)


def execute(request: ServedRequest, arguments: Mapping[str, Any]) -> JSONObject:
    """Answer `workflow_execute` with the outputs of a run, or why it failed and what it had done."""
    if ("workflow" in arguments) == ("resume" in arguments):
        step = "Pass workflow to run it, or resume with the id of a run that failed"
        lacking = "both are there" if "resume" in arguments else "workflow is missing"
        message = f"workflow_execute takes either workflow or resume: {lacking}"
        raise PflowError(message, kind="validation", suggestions=(step,))
    if "resume" in arguments:
        return _resumed(request, arguments)
    if "decisions" in arguments:
        raise PflowError("decisions are about a run: pass resume", kind="validation")
    given = given_workflow(request, arguments["workflow"])
    if given.saved:
        workflow_chain.require_no_circle(request.host, request.origin.above, given.name)
    outcome = request.runner.run(
        given.workflow,
        arguments.get("parameters", {}),
        name=given.name,
        origin=request.origin,
        control=request.control,
    )
    return ended(outcome, request)


def _resumed(request: ServedRequest, arguments: Mapping[str, Any]) -> JSONObject:
    run, decisions = arguments["resume"], arguments.get("decisions", {})
    if decisions and not request.allow_decisions:
        raise PflowError(
            "Only the user may decide what became of a step",
            kind="usage",
            suggestions=(f"Ask the user to decide: pflow resume {shown(run)}", _ALLOWING),
        )
    try:
        outcome = request.runner.resume(
            run,
            arguments.get("parameters", {}),
            decisions={step: _decision(step, it) for step, it in decisions.items()},
            origin=request.origin,
            control=request.control,
        )
    except PflowError as error:
        raise _advised(error, request) from None
    return ended(outcome, request)


def _decision(step: str, given: object) -> Decision:
    if isinstance(given, Mapping) and list(given) == ["done"]:
        return Decision(choice="done", result=given["done"])
    if isinstance(given, Mapping) and list(given) == ["answer"] and isinstance(given["answer"], str):
        return Decision(choice="answer", result=given["answer"])
    if isinstance(given, str) and given in _CHOICES:
        return Decision(choice=given)
    forms = ('{"done": RESULT}', '{"answer": TEXT}', *_CHOICES)
    raise PflowError(f"The decision about {shown(step)} must be one of {', '.join(forms)}", kind="validation")


def _advised(error: PflowError, request: ServedRequest) -> PflowError:
    """Return the error of `workflow_execute`, with what an agent can do about unknown steps and questions."""
    left: Any = error.details.get("undecided")
    run = error.details.get("run_id")
    begin = f"call workflow_execute with resume {run} and decisions"
    if not left:
        if {"step", "question"} <= error.details.keys():
            asked = error.details["step"]
            given = f"With their answer, {begin} {json.dumps({asked: {'answer': 'TEXT'}})}"
            then = (given,) if request.allow_decisions else (*error.suggestions, _ALLOWING)
            error.suggestions = ("Show the question and what comes next to the user", *then)
        elif unmatched := error.details.get("unmatched"):
            given = f"If it is another step, {begin} {json.dumps({unmatched[0]['step']: 'forget'})}"
            then = (given,) if request.allow_decisions else (error.suggestions[0], _ALLOWING)
            error.suggestions = ("Pass the parameters that the run had", *then)
        return error
    step = left[0]["step"]
    if request.allow_decisions:
        error.suggestions = (
            "Find out whether each step in details.undecided happened, or ask the user; do not guess",
            f"If {step} happened, {begin} {json.dumps({step: {'done': 'RESULT'}})}",
            f"If it did not, {begin} {json.dumps({step: 'not done'})}",
        )
    else:
        error.suggestions = (
            "Do not run the workflow again: it could do these steps twice",
            "Show details.undecided to the user, who decides and goes on with the run:",
            *(it for it in error.suggestions if "pflow resume" in it),
            _ALLOWING,
        )
    return error


def validate(request: ServedRequest, arguments: Mapping[str, Any]) -> JSONObject:
    """Answer `workflow_validate` with every problem of a workflow, and its normal form."""
    given = given_workflow(request, arguments["workflow"])
    problems = request.runner.validate(given.workflow)
    errors = errors_in(problems)
    if errors:
        raise PflowError(
            f"The workflow has {count_text(len(errors), 'error')}",
            kind="validation",
            problems=(*errors, *(problem for problem in problems if problem.severity != "error")),
        )
    normal = request.runner.normalise(given.workflow)
    if Redactor(request.control.secrets).value(normal) != normal:
        message = (
            "The workflow contains a secret, which this answer shows as ***: do not save this form of it"
        )
        problems = (*problems, Problem(message=message, severity="warning", suggestion=_BY_SETTING))
    found = [it.to_dict() for it in request.advised(problems)]
    return success({"valid": True, "problems": found, "workflow": normal})


def save(request: ServedRequest, arguments: Mapping[str, Any]) -> JSONObject:
    """Answer `workflow_save`: check the given workflow, and save it in the host's library.

    One that has `***` where answers show that for a secret of the workflow to be replaced is refused.
    """
    given, name = given_workflow(request, arguments["workflow_file"]), arguments["name"]
    earlier: JSONObject = {}
    with suppress(PflowError):  # there is none, or it is damaged, and this one replaces it
        earlier = library_of(request.host).get(name)
    hides = Redactor(request.control.secrets).value(earlier) != earlier
    if hides and json.dumps(given.workflow).count(REDACTED) > json.dumps(earlier).count(REDACTED):
        raise PflowError(
            f"The workflow has *** where {name} has a secret, which no answer shows",
            kind="validation",
            suggestions=(_BY_SETTING, "Or write the value itself, if you know it"),
        )
    saved, problems = request.host.save_workflow(given.workflow, name, arguments["description"])
    return success({**described(saved), "problems": [it.to_dict() for it in request.advised(problems)]})


def list_saved(request: ServedRequest, arguments: Mapping[str, Any]) -> JSONObject:
    """Answer `workflow_list` with the workflows in the host's library."""
    library = request.host.library
    saved = library.saved(arguments.get("filter", "")) if library else ()
    return success({"workflows": [described(each) for each in saved], "total": len(saved)})


def described(saved: SavedWorkflow) -> dict[str, Any]:
    """Return what `workflow_*` tools show of a workflow: all but its path, which is of no use to clients."""
    data = saved.to_dict()
    del data["path"]
    return {key: value for key, value in data.items() if value or key in ("inputs", "outputs")}


def ended(outcome: Outcome, request: ServedRequest, **more: object) -> JSONObject:
    """Return what `workflow_*` tools answer after a run: outputs, or error and checkpoint, shortened."""
    beside = beside_run(outcome, request)
    if outcome.error is not None:
        outcome.error.details["run_id"] = outcome.run_id
        told = request.told(_advised(outcome.error, request))
        envelope = failure(told, checkpoint=outcome.checkpoint, **beside)
        error = envelope["error"]
        return {**envelope, "error": {**error, "details": outcome.shown(error["details"])}}
    outputs = outcome.shown(dict(outcome.outputs))
    return success({"outputs": outputs, **more, "run_id": outcome.run_id}, **beside)


def beside_run(outcome: Outcome, request: ServedRequest) -> dict[str, Any]:
    """Return what the answer of a `workflow_*` tool has beside a run's data or error: trace and warnings."""
    warnings = [it.to_dict() for it in request.advised(outcome.warnings)]
    trace = {"trace_path": str(outcome.trace_path)} if outcome.trace_path else {}
    return {**trace, "warnings": warnings} if warnings else trace


_BY_SETTING = (
    'Declare an input such as {"type": "str", "secret": true, "setting": "DB_PASSWORD"}, which takes its '
    "value from the setting on the command line and from parameters here; write ${INPUT} where the secret is"
)
_WORKFLOW: JSONObject = {
    "type": ["string", "object"],
    "description": (
        "The name of a saved workflow, the path of a JSON or YAML file inside the served folder, or the "
        "workflow itself as a JSON object (or as JSON or YAML text): {nodes: [{id, type, params}], edges, "
        "inputs, outputs}"
    ),
}
_CHOICES: tuple[Literal["not done", "skip", "rerun", "forget"], ...] = ("not done", "skip", "rerun", "forget")
_ALLOWING = (
    "The user can let clients decide: pflow serve mcp --allow-decisions, or allow_decisions under [serve] in "
    "mcp-servers.toml"
)
_DESCRIBED: JSONObject = {
    "name": TEXT,
    "description": TEXT,
    "version": INTEGER,
    "saved": TEXT,
    "inputs": ANY_OBJECT,
    "outputs": ANY_OBJECT,
    "problem": TEXT,
}
_PROBLEMS = list_of(ANY_OBJECT)

DISCOVER = ServedTool(
    name="workflow_discover",
    title="Find a saved workflow",
    description=(
        "Find saved workflows that do what a task asks for. Always call this first: running a saved workflow "
        "is faster and safer than building one. Returns matches, best first, each with its name, inputs, "
        "outputs, a confidence from 0 to 1 and the reason. At 0.95 or more, run the workflow by its name "
        "with workflow_execute; below, look at it first; if nothing fits, continue with registry_discover."
    ),
    input_schema=arguments_schema({"query": {**TEXT, "description": "The task, in plain words"}}),
    output_schema=discovery_schema(_DESCRIBED, ("name", "inputs", "outputs")),
    claims=DISCOVERING,
    answer=discover,
)

EXECUTE = ServedTool(
    name="workflow_execute",
    title="Run a workflow",
    description=(
        "Run a workflow and return its outputs. It is checked first, and nothing runs if it has an error; it "
        "is never repaired automatically. On failure the answer holds the error, what to do about it, and a "
        "checkpoint of what each node had written; trace_read shows every step. Pass resume instead of "
        "workflow to go on with a run that failed: what it did is not done again. A workflow may call "
        "any tool or command that its nodes name: look at it before you run one that you did not write."
    ),
    input_schema=arguments_schema(
        {
            "workflow": _WORKFLOW,
            "parameters": {
                **ANY_OBJECT,
                "default": {},
                "description": "The workflow's inputs by name",
            },
            "resume": {
                **TEXT,
                "description": (
                    "Instead of workflow: the run_id of a run that failed, to go on where it ended. It keeps "
                    "its inputs, except secret ones"
                ),
            },
            "decisions": {
                **ANY_OBJECT,
                "description": (
                    'With resume, if the user allows it: by step of details.undecided, {"done": RESULT} if '
                    'it happened, "not done", or "skip"; by a step that was done, "rerun" or "forget"; by '
                    'one that asks, {"answer": TEXT}'
                ),
            },
        },
        required=(),
    ),
    output_schema=answer_schema({"outputs": ANY_OBJECT, "run_id": TEXT}, **RUN_BESIDE),
    claims=Claims(read_only=False, destructive=True, idempotent=False, open_world=True),
    answer=execute,
)

VALIDATE = ServedTool(
    name="workflow_validate",
    title="Check a workflow",
    description=(
        "Check a workflow without running it. Returns every problem at once, each with its JSON path, "
        "message and suggestion; if there is no error, also the workflow in its normal form. `data.valid` is "
        "there in every answer. Call it after each change until it is true, then workflow_execute."
    ),
    input_schema=arguments_schema({"workflow": _WORKFLOW}),
    output_schema=answer_schema(
        {"valid": FLAG, "problems": _PROBLEMS, "workflow": ANY_OBJECT}, required=("valid",)
    ),
    claims=LOCAL_READING,
    answer=validate,
    beside_error={"data": {"valid": False}},
)

SAVE = ServedTool(
    name="workflow_save",
    title="Save a workflow",
    description=(
        "Save a workflow in the user's library, so that workflow_discover finds it and workflow_execute runs "
        "it by name. Save one that has run successfully. A workflow of the same name is replaced; its older "
        "versions are kept."
    ),
    input_schema=arguments_schema(
        {
            "workflow_file": {
                **TEXT,
                "maxLength": MOST_BYTES,
                "description": (
                    "The path of a JSON or YAML file inside the served folder, the workflow itself as JSON "
                    "or YAML text, or the name of a saved workflow to copy"
                ),
            },
            "name": {**TEXT, "description": "lowercase-with-hyphens"},
            "description": {**TEXT, "description": "What it does, in the words of a task"},
        }
    ),
    output_schema=answer_schema(_DESCRIBED, required=("name",)),
    # Replaced ones are kept as versions.
    claims=Claims(read_only=False, destructive=False, idempotent=True, open_world=False),
    answer=save,
)

LIST = ServedTool(
    name="workflow_list",
    title="List saved workflows",
    description=(
        "List the saved workflows with their inputs and outputs, by name. To find one for a task, "
        "workflow_discover is better."
    ),
    input_schema=arguments_schema(
        {"filter": {**TEXT, "description": "Only those whose name or description contains this"}}, required=()
    ),
    output_schema=answer_schema(
        {"workflows": list_of(object_of(_DESCRIBED, required=("name",))), "total": INTEGER}
    ),
    claims=LOCAL_READING,
    answer=list_saved,
)


_LARGEST = 200_000
"""The approximate number of characters of a trace that are returned."""
_LONGEST = 4_096


def read_trace(request: ServedRequest, arguments: Mapping[str, Any]) -> JSONObject:
    """Answer `trace_read` with the steps of a run of the same caller."""
    traces = traces_of(request.host)
    run = arguments.get("trace_file", "latest")
    if not run or len(run) > _LONGEST or not run.isprintable():
        raise PflowError(f"{shown(run)!r} is not a trace", kind="validation", suggestions=("Pass latest",))
    running = [it for it in request.running if run == "latest" or it.startswith(run)]
    try:
        path = traces.find(run, owner=request.origin.owner)
    except PflowError as error:
        if running:
            step = "Read its trace by this id when it has ended"
            message = f"Run {running[-1]} has not ended yet"
            raise PflowError(message, kind="not_found", suggestions=(step,)) from None
        error.suggestions = error.suggestions or ("Pass the run_id or trace_path of a run, or latest",)
        raise
    trace: dict[str, Any] = dict(traces.read(path))
    if trace.get("error"):
        written = trace["error"]
        told = PflowError("", details=written.get("details") or {}, suggestions=written["suggestions"])
        told.details.setdefault("run_id", trace["run_id"])
        told = request.told(_advised(told, request))
        trace["error"] = {**written, "suggestions": list(told.suggestions)}
    # Steps that would make it too long lose their params, outputs and items.
    steps: list[Any] = []
    left = _LARGEST
    for step in trace["steps"]:
        left -= len(str(step))
        large = {key: "..." for key in ("params", "outputs", "items") if key in step}
        steps.append(step if left > 0 else {**step, **large, "cut": True})
    beside = {"running": running} if running else {}
    return success({**trace, "steps": steps, "trace_file": str(path), **beside})


_STEP = object_of(
    {
        "id": TEXT,
        "type": TEXT,
        "action": {"type": ["string", "null"]},
        "milliseconds": NUMBER,
        "error": {"type": ["string", "null"]},
    },
    required=("id", "type"),
)

READ_TRACE = ServedTool(
    name="trace_read",
    title="Read a trace",
    description=(
        "Read the trace of a run: each step in order, with its node, params, outputs, action, time and "
        "error. Call it when a run failed or its outputs are not what you expected. Values are shortened, "
        "and secrets redacted."
    ),
    input_schema=arguments_schema(
        {
            "trace_file": {
                **TEXT,
                "description": "The trace_path of a run, its run_id, or latest, which is the default",
            }
        },
        required=(),
    ),
    output_schema=answer_schema(
        {
            "run_id": TEXT,
            "workflow": TEXT,
            "success": FLAG,
            "error": {"type": ["object", "null"]},
            "inputs": ANY_OBJECT,
            "steps": list_of(_STEP),
            "trace_file": TEXT,
            "running": {**list_of(TEXT), "description": "With latest: runs of yours that have not ended"},
        },
        required=("steps", "trace_file"),
    ),
    claims=LOCAL_READING,
    answer=read_trace,
)
