"""The tools of a server in a test: how a test declares them, what they answer, which calls they received."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs

from pflow_mcp_plugin.catalog.tool_file import tool_from_json
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.daemon_threads import to_its_end
from pflow_mcp_plugin.exchange import CallResult, ToolCall
from pflow_mcp_plugin.schemas.schema_reader import result_form
from pflow_mcp_plugin.types import Tool

ToolLike = Tool | Mapping[str, Any] | Callable[..., Any]
"""A tool as a test writes it down: a function, a `Tool`, or its JSON form in an answer to `tools/list`."""


class ToolFailure(Exception):
    """A failure that a tool of a test reports: raised by its function, or given as its answer."""


def declared(tool: ToolLike) -> tuple[Tool, Callable[..., CallResult] | None]:
    """Return a tool, however a test declares it, and the function that answers; None if `give` sets answers.

    A function's schema comes from its annotations.

    Raises:
        TypeError: The JSON form has no name.
    """
    if isinstance(tool, Tool):
        return tool, None
    if isinstance(tool, Mapping):
        if not isinstance(tool.get("name"), str):
            raise TypeError(f"A tool needs a name, got {dict(tool)!r}")
        return tool_from_json({"inputSchema": {"type": "object"}, "hash": "", **tool}), None
    from mcp.server.mcpserver.tools import Tool as SdkTool

    made = SdkTool.from_function(tool)

    def answer(**arguments: Any) -> CallResult:
        return to_its_end(lambda: _call(made, arguments))

    of_function = Tool(
        name=made.name,
        description=made.description,
        input_schema=made.parameters,
        output_schema=made.output_schema,
    )
    return of_function, answer


def read_tools(path: str | Path) -> tuple[Tool, ...]:
    """Return the tools that a JSON file declares for a test: an answer to `tools/list`, or a tool file.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not JSON.
        TypeError: It has no list `tools`.
    """
    document = json.loads(Path(path).read_text(encoding="utf-8"))
    tools = document.get("tools") if isinstance(document, Mapping) else None
    if not isinstance(tools, list):
        raise TypeError(f'{path} has no list "tools"')
    return tuple(declared(tool)[0] for tool in tools)


async def _call(made: Any, arguments: dict[str, Any]) -> CallResult:
    from mcp.server.mcpserver import Context
    from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError

    try:
        result = await made.run(arguments, Context(), convert_result=True)
    except ToolError as error:
        cause = error.__cause__
        if isinstance(cause, ToolFailure):
            raise cause from None
        # A server hides what an unexpected exception says; the author of a test wants to read it.
        unexpected = isinstance(error, UnexpectedToolError) and cause
        raise ToolFailure(
            f"{error}: {type(cause).__name__}: {cause}" if unexpected else str(error)
        ) from error
    data = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    return CallResult(
        content=tuple(data["content"]),
        structured=data.get("structuredContent"),
        has_structured="structuredContent" in data,
        is_error=bool(data.get("isError")),
    )


class ToolAnswers:
    """What the tools of a server answer in a test, and the calls that were made. Thread-safe.

    Args:
        tools: Functions, which answer their calls themselves; or `Tool` objects and tools in the JSON form
            of `tools/list`, which need `give`.

    Attributes:
        tools: What the server lists.
        calls: Every call, in order, failed ones included.
    """

    def __init__(self, tools: Iterable[ToolLike]) -> None:
        declarations = [declared(tool) for tool in tools]
        self.tools: tuple[Tool, ...] = tuple(tool for tool, _ in declarations)
        self.calls: list[ToolCall] = []
        self._lock = threading.Lock()
        self._wrapping = {
            tool.name for tool in self.tools if result_form(tool.output_schema).wrapped is not False
        }
        self._answers: dict[str, deque[Any]] = {
            tool.name: deque([function]) for tool, function in declarations if function
        }

    def give(self, tool: str, *answers: object) -> None:
        """Declare a tool's answers in a test: one for each call, and the last for all that follow.

        Args:
            tool: Its raw name.
            answers: What it answers: a string is text, a `CallResult` is taken as it is, a function is
                called with the arguments as keywords, an exception is raised, and any other JSON value
                is a structured result. `ToolFailure("...")` is a failure that the tool reports; an error
                such as `errors.DeadlineExceeded` takes the place of a call that went wrong.

        Raises:
            ValueError: The server has no such tool, or there is no answer.
        """
        names = [known.name for known in self.tools]
        if tool not in names:
            raise ValueError(f"No tool is named {tool}; there are: {', '.join(names) or 'none'}")
        if not answers:
            raise ValueError(f"No answer is given for the tool {tool}")
        with self._lock:
            self._answers[tool] = deque(answers)

    def arguments(self, tool: str) -> list[JSONObject]:
        """Return the arguments of each call that a test's tool got, in order."""
        return [call.arguments for call in [*self.calls] if call.tool == tool]

    def count(self, tool: str = "") -> int:
        """Return how many calls a tool answered in a test; without a name, those of all tools."""
        return len(self.arguments(tool)) if tool else len(self.calls)

    def answer(self, call: ToolCall) -> CallResult:
        """Record a call in a test and return its answer.

        Raises:
            Exception: The answer is an exception, or the function raises one.
        """
        with self._lock:
            self.calls.append(call)
            waiting = self._answers.get(call.tool)
            if not waiting:
                raise LookupError(f'No answer is set for the tool {call.tool}: give("{call.tool}", ...)')
            chosen = waiting.popleft() if len(waiting) > 1 else waiting[0]
        try:
            return _result(chosen, call.arguments, wrapping=call.tool in self._wrapping)
        except ToolFailure as failure:
            return attrs.evolve(_text(str(failure)), is_error=True)


def _result(answer: object, arguments: JSONObject, *, wrapping: bool) -> CallResult:
    if isinstance(answer, Exception):
        raise answer
    if callable(answer):
        return _result(answer(**arguments), arguments, wrapping=wrapping)
    if isinstance(answer, CallResult):
        return answer
    if isinstance(answer, str):
        return _text(answer)
    # Servers wrap values that are not objects like this, unless the output schema says otherwise.
    structured: Any = {"result": answer} if wrapping and not isinstance(answer, Mapping) else answer
    text = json.dumps(structured, ensure_ascii=False)
    # What the code under test does to an answer does not change the next one.
    return attrs.evolve(_text(text), structured=json.loads(text), has_structured=True)


def _text(text: str) -> CallResult:
    return CallResult(content=({"type": "text", "text": text},))
