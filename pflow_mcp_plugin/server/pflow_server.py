"""The pflow MCP server: its handlers of tools, resources and prompts, over the SDK's low-level server.

The high-level server of the SDK derives tools from functions and checks each call with pydantic models.
Here the schemas of a tool are written by hand, and its result is sent as the dictionary that it is.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast, get_args

import anyio
import attrs
import mcp_types as types
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from pflow_mcp_plugin import workflow_chain
from pflow_mcp_plugin.contract import THE_USER, Host, Keeper, PflowError, RunControl, RunOptions, RunOrigin
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.contract.problems import described
from pflow_mcp_plugin.contract.run_requests import USUAL_OPTIONS
from pflow_mcp_plugin.daemon_threads import Threads
from pflow_mcp_plugin.redaction import Redactor
from pflow_mcp_plugin.server import envelopes
from pflow_mcp_plugin.server.client_notifications import ListChanges, ProgressSender
from pflow_mcp_plugin.server.envelopes import TEXT, KnownSecrets, list_of, object_of
from pflow_mcp_plugin.server.served_tool import ServedRequest, ServedTool, checked_arguments, nearest, shown

RUN_META_KEY = "io.github.pflow/run"
"""The key in the `_meta` of a bare result that has the run's id and trace."""
GRACE_SECONDS = 15.0
"""Seconds that a cancelled call waits for its run to end: servers may take some."""

MOST_CALLS = 128
"""Calls that are answered at once; further ones wait."""

INSTRUCTIONS = (
    "pflow runs workflows: JSON documents whose nodes are tools of MCP servers, shell commands, files and "
    "language models. Begin with workflow_discover: the task may have a workflow already. Find nodes for a "
    "new workflow with registry_discover. Look at their parameters with registry_describe. See what they "
    "really return with registry_run. Check a workflow with workflow_validate. Run it with "
    "workflow_execute. Keep it with workflow_save. trace_read shows what each step of a run did."
)

Context = ServerRequestContext[Any, Any]
Tools = Callable[[], Sequence[ServedTool]]
CallHandler = Callable[[Context, types.CallToolRequestParams], Awaitable[dict[str, Any]]]
_FRESH = CacheHint(ttl_ms=0, scope="private")


class Resources(Protocol):
    """What pflow's MCP server calls for `resources/...`, in a worker thread: handlers of the SDK's server."""

    # Each with `uri`, `name`, `description`, `mimeType`.
    def resources(self, request: ServedRequest) -> Sequence[JSONObject]: ...

    def templates(self) -> Sequence[JSONObject]: ...

    # Each with `uri`, `mimeType`, and `text`: a text, or a JSON value to be redacted and encoded.
    def read(self, request: ServedRequest, uri: str) -> Sequence[JSONObject]: ...


class Prompts(Protocol):
    """What the pflow MCP server's handlers of `prompts/...` call in a worker thread."""

    # Each with `name`, `description`, `arguments`.
    def prompts(self) -> Sequence[JSONObject]: ...

    # With `description`, `messages`.
    def get(self, request: ServedRequest, name: str, arguments: Mapping[str, str]) -> JSONObject: ...


def the_user(context: Context) -> RunOrigin:
    """Return the origin that the pflow MCP server gives requests by default: whoever started the server."""
    meta: Mapping[str, Any] = context.meta or {}
    parent = meta.get("traceparent")
    return RunOrigin(trace_parent=parent) if isinstance(parent, str) else THE_USER


@attrs.frozen(kw_only=True)
class ServingOptions:
    """The options of the pflow MCP server: how its handlers treat requests.

    Attributes:
        root: The only folder from which files may be read; None where no file may.
        caller: Returns who sent a request; over HTTP, its `owner` comes from the authenticated token.
        run_options: The options of each run and check.
        keeper: Returns what keeps servers for further runs of whoever sent the request; None keeps none.
        show_secrets: Whether secret settings may be shown; asked for each call.
        allow_decisions: Whether clients may decide about steps of runs that they resume; asked for each call.
        secrets: Further values that no answer or trace may contain, such as the token of the server.
        changes: Tells clients that a list has changed; see `ListChanges`.
        instructions: What clients tell their models about the server.
        hidden: The names of pflow's own tools that are not served.
        began: Called with each call's control, which has the id of its run once that begins.
        background: Entered while the server runs, for tasks of its own.
    """

    root: Path | None = None
    caller: Callable[[Context], RunOrigin] = the_user
    run_options: RunOptions = USUAL_OPTIONS
    keeper: Callable[[], Keeper | None] = lambda: None
    show_secrets: Callable[[], bool] = lambda: False
    allow_decisions: Callable[[], bool] = lambda: False
    secrets: frozenset[str] = frozenset()
    resources: Resources | None = None
    prompts: Prompts | None = None
    changes: ListChanges | None = None
    instructions: str = INSTRUCTIONS
    hidden: Sequence[str] = ()
    began: Callable[[RunControl], object] = lambda _: None
    background: Callable[[], AbstractAsyncContextManager[object]] = nullcontext


def build_server(host: Host, tools: Tools, options: ServingOptions | None = None) -> Server[Any]:
    """Return the SDK server that serves pflow; it is not running yet.

    `tools` is called for each request, so that they may change.
    """
    return _Handlers(host, tools, options or ServingOptions()).server()


def call_handler(host: Host, tools: Tools) -> CallHandler:
    """Return the `tools/call` handler of a pflow server, for an SDK server that is built elsewhere."""
    return _Handlers(host, tools, ServingOptions()).call_tool


class WorkerThreads:
    """The pflow MCP server's reused threads, where its handlers do what they must not do in its event loop.

    They are daemons: a node that cannot be stopped does not keep the program from ending.
    """

    def __init__(self) -> None:
        self._limit = anyio.CapacityLimiter(MOST_CALLS)
        self._threads = Threads(MOST_CALLS, "pflow-answer")

    async def run(self, work: Callable[[], Any], cancel: Callable[[], object], grace: float) -> Any:
        """Do a handler's `work` in a thread; if cancelled, call `cancel` and give it `grace` seconds."""
        loop = asyncio.get_running_loop()
        ended = anyio.Event()

        def note_end(_: object) -> None:
            with suppress(RuntimeError):  # the loop is closed: nothing waits for the result
                loop.call_soon_threadsafe(ended.set)

        async with self._limit:
            result = self._threads.submit(work)
            result.add_done_callback(note_end)
            try:
                await ended.wait()
            except BaseException:
                cancel()
                with anyio.move_on_after(grace, shield=True):
                    await ended.wait()
                raise
        return result.result()


class _Handlers:
    def __init__(self, host: Host, tools: Tools, options: ServingOptions) -> None:
        self._host = host
        self._tools = tools
        self._options = options
        self._secrets = KnownSecrets(host, options.secrets)
        self._threads = WorkerThreads()
        self._calls: dict[RunControl, str] = {}  # those being answered, with their owners

    def server(self) -> Server[Any]:
        from importlib.metadata import version

        offered: dict[str, Any] = {}
        options = self._options
        if options.resources is not None:
            offered |= _resource_handlers(self, options.resources)
        if options.prompts is not None:
            offered |= _prompt_handlers(self, options.prompts)
        if options.changes is not None:
            offered["on_subscriptions_listen"] = options.changes.listen
        return _Server(
            workflow_chain.SERVER_NAME,
            title="pflow",
            version=version("pflow-mcp"),
            instructions=options.instructions,
            lifespan=lambda _server: options.background(),
            # The SDK also accepts results as the dictionaries that it sends; its types do not say so.
            on_list_tools=cast("Any", self.list_tools),
            on_call_tool=cast("Any", self.call_tool),
            cache_hints=dict.fromkeys(get_args(CacheableMethod), _FRESH),
            **offered,
        )

    async def list_tools(self, context: Context, _params: object) -> dict[str, Any]:
        self.note_lister(context)
        redactor = self._secrets.redactor()
        return complete(tools=[declaration(tool, redactor) for tool in self._offered()])

    async def call_tool(self, context: Context, params: types.CallToolRequestParams) -> dict[str, Any]:
        # Any failure is a result with `isError`, for agents to read.
        offered = self._offered()
        tool = next((tool for tool in offered if tool.name == params.name), None)
        if tool is None:
            names = [tool.name for tool in offered]
            unknown = PflowError(
                f"There is no tool {shown(params.name)}",
                kind="not_found",
                suggestions=(nearest(params.name, names, "See tools/list"),),
                details={"tools": names[:50]},
            )
            return result(envelopes.failure(unknown), envelopes.output_schema({}), self._secrets.redactor())
        async with ProgressSender(context, self._secrets.redactor().text) as progress:
            control = RunControl(progress.report)
            control.add_secrets(self._secrets.saved())  # the trace is redacted too
            request = self._request(context, control)
            answer = partial(self._answered, tool, request, params)
            self._calls[control] = request.origin.owner
            self._options.began(control)
            try:
                answered: dict[str, Any] = await self._threads.run(answer, control.cancel, GRACE_SECONDS)
            finally:
                del self._calls[control]
        return answered

    async def in_thread(self, context: Context, work: Callable[[ServedRequest], Any], **facts: str) -> Any:
        """Handle a request for a resource or prompt in a thread; a failure is an MCP error with `facts`."""
        request = self._request(context, RunControl())
        try:
            return await self._threads.run(partial(work, request), request.control.cancel, GRACE_SECONDS)
        except Exception as error:  # noqa: BLE001 - a door: plugins raise anything
            raise self._protocol_error(error, **facts) from None

    def note_lister(self, context: Context) -> None:
        """For the pflow server: note that a client has asked for a list, and is notified of changes."""
        if self._options.changes is not None:
            self._options.changes.seen(context)

    def redacted(self, value: Any, schema: JSONObject) -> Any:
        return envelopes.redacted(value, schema, self._secrets.redactor())

    def _answered(
        self, tool: ServedTool, request: ServedRequest, params: types.CallToolRequestParams
    ) -> dict[str, Any]:
        try:
            arguments = checked_arguments(tool, params.arguments or {})
            origin = attrs.evolve(request.origin, above=workflow_chain.received(params.meta))
            envelope = tool.answer(attrs.evolve(request, origin=origin), arguments)
        except PflowError as error:
            envelope = envelopes.failure(request.told(error), **tool.beside_error)
        except BaseException as error:  # noqa: BLE001 - a door: nodes and plugins raise anything
            envelope = envelopes.failure(_unexpected(tool.name, error), **tool.beside_error)
        redactor = self._secrets.redactor(request.control)
        if tool.reveals and request.show_secrets:
            redactor = Redactor()
        schema = tool.output_schema
        if tool.bare:
            schema = envelopes.output_schema(schema, run_id=envelopes.TEXT, **envelopes.RUN_BESIDE)
        return result(envelope, schema, redactor, bare=tool.bare)

    def _request(self, context: Context, control: RunControl) -> ServedRequest:
        options = self._options
        origin = attrs.evolve(options.caller(context), keeper=options.keeper())
        running = [it.run_id for it, owner in self._calls.items() if it.run_id and owner == origin.owner]
        return ServedRequest(
            host=self._host,
            root=options.root,
            origin=origin,
            control=control,
            show_secrets=options.show_secrets(),
            allow_decisions=options.allow_decisions(),
            run_options=options.run_options,
            hidden=options.hidden,
            running=running,
        )

    def _offered(self) -> Sequence[ServedTool]:
        try:
            return self._tools()
        except Exception as error:  # noqa: BLE001 - a door: a library may be unreadable
            raise self._protocol_error(error) from None

    def _protocol_error(self, error: Exception, **facts: str) -> MCPError:
        # For resources and prompts, whose answers have no envelopes.
        failure = error if isinstance(error, PflowError) else _unexpected("The request", error)
        wrong = failure.kind in ("not_found", "validation", "usage")
        data = self.redacted({**failure.to_dict(), **facts}, envelopes.ERROR)
        return MCPError(types.INVALID_PARAMS if wrong else types.INTERNAL_ERROR, data["message"], data)


class _Server(Server[Any]):
    """A server of the SDK that does not offer subscriptions to single resources: `ListChanges` has none."""

    def get_capabilities(self, *args: Any, **options: Any) -> types.ServerCapabilities:
        found = super().get_capabilities(*args, **options)
        if found.resources is not None:
            found.resources.subscribe = False
        return found


def declaration(tool: ServedTool, redactor: Redactor | None = None) -> dict[str, Any]:
    """Return what the pflow server lists of a tool, as the SDK's low-level server takes it."""
    redactor = redactor or Redactor()
    title = redactor.piece(tool.title)
    return {
        "name": tool.name,
        "title": title,
        "description": redactor.piece(tool.description),
        "inputSchema": envelopes.redacted_schema(tool.input_schema, redactor),
        "outputSchema": envelopes.redacted_schema(tool.output_schema, redactor),
        "annotations": {
            "title": title,
            "readOnlyHint": tool.claims.read_only,
            "destructiveHint": tool.claims.destructive,
            "idempotentHint": tool.claims.idempotent,
            "openWorldHint": tool.claims.open_world,
        },
    }


def result(
    envelope: JSONObject, schema: JSONObject, redactor: Redactor, *, bare: bool = False
) -> dict[str, Any]:
    """Return the pflow server's answer to `tools/call`, as the SDK's low-level server takes it.

    `schema` is that of the envelope. If it is `bare`, a success is its `data` alone, and what is beside it
    goes to `_meta`; a failure is in the text alone, since clients check the structured content of any result.
    """
    content, text = envelopes.encoded(envelope)
    redacted = envelopes.redacted(content, schema, redactor)
    beside: dict[str, Any] = {}
    if bare and envelope["success"]:
        if redacted["data"] != content["data"] and not _fits(redacted["data"], schema):
            steps = (
                "Do not call it again for this",
                "The user can change what it returns",
            )
            run_id = {"run_id": content.get("run_id")}
            message = "It ran, but its outputs are not shown: a number in them is a secret"
            withheld = PflowError(message, details=run_id, suggestions=steps)
            return result(envelopes.failure(withheld), schema, redactor, bare=True)
        run = {key: value for key, value in redacted.items() if key not in ("schema", "success", "data")}
        redacted, beside = redacted["data"], {"_meta": {RUN_META_KEY: run}}
    if redacted != content:
        text = json.dumps(redacted, ensure_ascii=False)
    if not bare or envelope["success"]:
        beside["structuredContent"] = redacted
    return complete(content=[{"type": "text", "text": text}], isError=not envelope["success"], **beside)


def _fits(data: Any, schema: Any) -> bool:
    from jsonschema import Draft202012Validator

    return bool(Draft202012Validator(schema["properties"]["data"]).is_valid(data))


def complete(**members: object) -> dict[str, Any]:
    """Return an MCP server handler's result marked as complete; revision 2026-07-28 also has others."""
    return {"resultType": "complete", **members}


def _unexpected(name: str, error: BaseException) -> PflowError:
    return PflowError(f"{name} failed: {described(error)}", details={"exception": type(error).__name__})


_WORD: JSONObject = {"enum": []}
_RESOURCES = list_of(
    object_of({"uri": TEXT, "name": TEXT, "description": TEXT, "mimeType": _WORD, "text": TEXT})
)
_MESSAGE = object_of({"role": _WORD, "content": object_of({"type": _WORD, "text": TEXT})})
_PROMPT = object_of({"description": TEXT, "messages": list_of(_MESSAGE)})


def _resource_handlers(served: _Handlers, resources: Resources) -> dict[str, Any]:
    async def listed(context: Context, _params: object) -> dict[str, Any]:
        served.note_lister(context)
        found = await served.in_thread(context, resources.resources)
        return complete(resources=served.redacted(list(found), _RESOURCES))

    async def templates(context: Context, _params: object) -> dict[str, Any]:
        found = await served.in_thread(context, lambda _request: resources.templates())
        return complete(resourceTemplates=list(found))

    async def read(context: Context, params: types.ReadResourceRequestParams) -> dict[str, Any]:
        uri = str(params.uri)
        found = await served.in_thread(context, lambda request: resources.read(request, uri), uri=uri)
        contents = served.redacted(list(found), _RESOURCES)
        for each in contents:
            text = each.get("text", "")  # another one has a `blob`
            if not isinstance(text, str):  # redacted as a value, it stays valid JSON
                each["text"] = json.dumps(text, ensure_ascii=False, indent=2)
        return complete(contents=contents)

    return {
        "on_list_resources": listed,
        "on_list_resource_templates": templates,
        "on_read_resource": read,
    }


def _prompt_handlers(served: _Handlers, prompts: Prompts) -> dict[str, Any]:
    async def listed(context: Context, _params: object) -> dict[str, Any]:
        return complete(prompts=list(await served.in_thread(context, lambda _request: prompts.prompts())))

    async def get(context: Context, params: types.GetPromptRequestParams) -> dict[str, Any]:
        arguments = params.arguments or {}
        found = await served.in_thread(context, lambda request: prompts.get(request, params.name, arguments))
        return complete(**served.redacted(found, _PROMPT))

    return {"on_list_prompts": listed, "on_get_prompt": get}
