"""`MCPNode`, the one node class behind every tool of every server, and the arguments that it sends."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Mapping, MutableMapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import attrs
from pocketflow import Node

from pflow_mcp_plugin import storage
from pflow_mcp_plugin.contract import PflowError, Run
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.contract.validators import is_reserved
from pflow_mcp_plugin.errors import McpError, Where
from pflow_mcp_plugin.exchange import CallResult
from pflow_mcp_plugin.execution.failure_actions import ERROR
from pflow_mcp_plugin.execution.result import ToolResult, read
from pflow_mcp_plugin.execution.runtime import Runtime, Target, open_runtime
from pflow_mcp_plugin.schemas.schema_reader import CONTENT_BLOCKS, Declaration
from pflow_mcp_plugin.types import ServerInfo, plain_version

RESOURCE = "mcp"
"""Key under which the MCP node finds the `Runtime` of its run: `run.resources["mcp"]`."""


@attrs.frozen(kw_only=True)
class Job:
    """The job of an `MCPNode` from its `prep` to its `post`; outside a workflow's run, `run` is None."""

    params: Mapping[str, Any]
    shared: MutableMapping[str, Any]
    run: Run | None


class MCPNode(Node):
    """The node that calls a tool: arguments from params, then from the shared store; outputs into it.

    The params `__mcp_server__` and `__mcp_tool__` name the tool. The node writes the top-level
    properties of a structured result under their own names, the whole as `result`, what the tool answered
    beside it as `content_blocks`, and `error` (None on success). A call is made exactly once,
    because its outcome may be unknown.

    Used outside a run, it opens and closes its own connection; the settings and the plugins of
    the current host, or of an installed one, apply there too.
    """

    announces_sending = True
    """The node tells its run when a call is sent; see `Run.current_step`."""
    call_tool: Callable[[Mapping[str, Any]], JSON] | None = None
    """For tests: answers the calls of the node in place of its server, with any JSON value."""
    _own: Mapping[str, Any] = MappingProxyType({})
    """In a copy: the params that the node had when it was copied."""

    def __init__(self) -> None:
        super().__init__(max_retries=1)  # a single attempt; with 0, pocketflow never calls `exec`

    def __copy__(self) -> Self:
        """Copy the `MCPNode`; a `Flow` does this, and then adds its own params to the node's."""
        made = type(self).__new__(type(self))
        vars(made).update(vars(self), _own=self.params)
        return made

    def set_params(self, params: Mapping[str, Any]) -> None:
        # A `Flow` sets them in the copy that it runs: the node's own params take precedence.
        self.params = {**params, **self._own}

    def prep(self, shared: MutableMapping[str, Any]) -> Job:
        return Job(params=self.params, shared=shared, run=shared.get("__run__"))

    def exec(self, prep_res: Job) -> ToolResult:
        params, run = prep_res.params, prep_res.run
        server, tool = params.get("__mcp_server__"), params.get("__mcp_tool__")
        if not (server and tool):
            raise McpError(
                "An MCPNode needs the params __mcp_server__ and __mcp_tool__",
                where=Where(phase="config"),
                next_step="Name a node of `pflow mcp tools` as its type, or set both params",
                kind="config",
            )
        with self._runtime(run) as runtime:
            target = runtime.target(server, tool)
            extra = params.get("__mcp_extra__") is True
            arguments = gather(
                target.declared, params, prep_res.shared, extra=extra, approved=target.approved
            )
            answer, began = None, time.perf_counter()
            run_id = run.run_id if run else ""
            try:
                if self.call_tool is None:
                    step = run.current_step() if run else None
                    answer = runtime.call(target, arguments, params.get("__node_id__", ""), run_id, step)
                else:
                    answer = CallResult(structured=self.call_tool(arguments), has_structured=True)
            finally:  # the trace includes failed calls too
                _annotate(prep_res, target, arguments, answer, time.perf_counter() - began)
            result = _read(answer, target, run, runtime)
            _show(prep_res, result)
            return result

    def exec_fallback(self, prep_res: Job, exc: Exception) -> PflowError:
        if isinstance(exc, PflowError):
            return exc
        raise exc

    def post(self, shared: MutableMapping[str, Any], prep_res: Job, exec_res: ToolResult | PflowError) -> str:
        if isinstance(exec_res, PflowError):
            shared["error"] = PflowError.__str__(exec_res)  # the node says whose tool it is
            shared["__error__"] = exec_res
            action = exec_res.action
            # A flow may have only one edge for all kinds of errors.
            return ERROR if action not in self.successors and ERROR in self.successors else action
        # Keys in double underscores, such as `__run__`, are the host's: a server must not replace them.
        for key, value in exec_res.natural.items():
            if key not in ("result", "error") and not is_reserved(key):
                shared[key] = value
        shared["result"] = exec_res.value
        shared["error"] = None
        return "default"

    def _runtime(self, run: Run | None) -> AbstractContextManager[Runtime]:
        shared = run.resources.get(RESOURCE) if run else None
        return open_runtime(run) if shared is None else nullcontext(shared)


def called(runtime: Runtime, server: str, tool: str, arguments: JSONObject) -> ToolResult:
    """Do what a node does, without a workflow: call its tool once; return the result in the node's form."""
    for what, name in (("server", server), ("tool", tool)):
        if not isinstance(name, str):
            message = f"The name of a {what} must be a string, not {type(name).__name__}"
            raise PflowError(message, suggestions=("Pass the server and the tool",), kind="usage")
    return _result_of(runtime, lambda: runtime.target(server, tool), arguments)


def resource(runtime: Runtime, server: str, uri: str) -> JSON:
    """Read a resource as an MCP node would, but without a workflow, and return its value."""
    return _result_of(runtime, lambda: runtime.resource_target(server), {"uri": uri}).value


def _result_of(runtime: Runtime, resolve: Callable[[], Target], arguments: JSONObject) -> ToolResult:
    try:
        target = resolve()
        _refuse_unknown(target, arguments)
        return _read(runtime.call(target, arguments), target, None, runtime)
    except PflowError as error:
        note_next_steps(error)
        raise


def note_next_steps(error: PflowError) -> None:
    """Add the next steps to an error that an `MCPNode` raises in Python, as notes in its traceback."""
    for step in error.suggestions:
        error.add_note(f"  -> {step}")


def _refuse_unknown(target: Target, arguments: JSONObject) -> None:
    if target.declared is None or target.declared.open:
        return
    approved = target.approved
    for name in arguments:
        if name not in target.declared.properties and name not in approved:
            from pflow_mcp_plugin.terminal.similar_names import did_you_mean

            where = target.where._replace(phase="arguments")
            raise McpError(
                f"Tool {where.tool} of server {where.server} takes no argument {name}",
                where=where,
                next_step=did_you_mean(name, approved, f"See: {where.info_command}"),
                kind="validation",
            )


def _read(answer: CallResult, target: Target, run: Run | None, runtime: Runtime) -> ToolResult:
    limit = int(target.launch.server.inline_limit_kb * 1024) if run else None  # only a run shows its values
    folder = run.artifacts_dir if run else storage.default_paths().state / "artifacts" / "without-run"
    result = read(answer, target.where, folder, limit, target.launch, target.form)
    for warning in result.warnings:
        runtime.warn(warning)
    return result


def _annotate(
    job: Job, target: Target, arguments: JSONObject, answer: CallResult | None, seconds: float
) -> None:
    node_id = job.params.get("__node_id__")
    if job.run is None or not node_id:
        return
    known = target.record.info if target.record else ServerInfo()
    info = answer.info if answer else known
    content = answer.content if answer else ()
    links = [block.get("uri") for block in content if block.get("type") == "resource_link"]
    details: JSONObject = {
        "server": target.launch.server.name,
        "tool": target.where.tool,
        "version": plain_version(info.version),
        "protocol": info.protocol,
        "milliseconds": round(answer.milliseconds if answer else seconds * 1000, 1),
        "arguments": arguments,
        **({"resource_links": links} if links else {}),
        **({"changed": target.use.notice} if target.use and target.use.notice else {}),
    }
    job.run.annotate(node_id, details)


def _show(job: Job, result: ToolResult) -> None:
    if job.run is None:
        return
    for text, file in result.files:
        job.run.name_file(text, Path(str(file["path"])))
    details: JSONObject = {"files": [file for _, file in result.files]} if result.files else {}
    if result.content_blocks and result.natural.get(CONTENT_BLOCKS) is not result.content_blocks:
        details = {**details, CONTENT_BLOCKS: result.content_blocks}  # the tool has an output of that name
    if details and (node_id := job.params.get("__node_id__")):
        job.run.annotate(node_id, details)


def gather(
    declared: Declaration | None,
    params: Mapping[str, Any],
    shared: Mapping[str, Any],
    *,
    extra: bool = False,
    approved: Container[str] = (),
) -> dict[str, Any]:
    """As a pocketflow node, gather the arguments of a call: params first, then keys of the shared store.

    Only what the tool declares is taken from the store; a None there counts as missing
    unless the tool accepts null. Params are sent unchanged, None included. Params that the tool does
    not declare are sent only if it accepts others. `__special__` params are never sent.
    """
    given = {key: value for key, value in params.items() if not is_reserved(key)}
    if declared is None:
        return given
    takes_any = declared.open or extra
    arguments = {
        key: value
        for key, value in given.items()
        if takes_any or key in declared.properties or key in approved
    }
    for key, schema in declared.properties.items():
        if key not in given and key in shared:
            value = shared[key]
            if value is not None or declared.document.takes_null(schema):
                arguments[key] = value
    return arguments
