"""What tools answer in a test: results and failures by tool; the calls are kept."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.exchange import CallResult, ToolCall
from pflow_mcp_plugin.schemas.schema_properties import result_form
from pflow_mcp_plugin.testing.tool_declarations import ToolFailure, ToolLike, declared
from pflow_mcp_plugin.types import Tool


class ToolAnswers:
    """The answers of a server's tools in a test, and the calls that were made. Safe to use from any thread.

    Args:
        tools: Functions, which answer their calls themselves; or `Tool` objects and tools in the JSON form
            of `tools/list`, which need `give`.

    Attributes:
        tools: What the server lists.
        calls: Every call, in order, failed ones included.
    """

    def __init__(self, tools: Iterable[ToolLike]) -> None:
        declarations = [declared(tool) for tool in tools]
        self.tools: tuple[Tool, ...] = tuple(each.tool for each in declarations)
        self.calls: list[ToolCall] = []
        self._lock = threading.Lock()
        self._wrapping = {
            tool.name for tool in self.tools if result_form(tool.output_schema).wrapped is not False
        }
        self._answers: dict[str, deque[Any]] = {
            each.tool.name: deque([each.function]) for each in declarations if each.function
        }

    def give(self, tool: str, *answers: object) -> None:
        """Set the answers that a tool gives in a test, one for each call; the last one remains.

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
        """Return the arguments of every call that a tool had to answer, in order."""
        return [call.arguments for call in [*self.calls] if call.tool == tool]

    def count(self, tool: str = "") -> int:
        """Return how many calls a tool had to answer; without a name, all tools together."""
        return len(self.arguments(tool)) if tool else len(self.calls)

    def answer(self, call: ToolCall) -> CallResult:
        """Keep a call and return its answer.

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
    text = _text(json.dumps(structured, ensure_ascii=False))
    return attrs.evolve(text, structured=structured, has_structured=True)


def _text(text: str) -> CallResult:
    return CallResult(content=({"type": "text", "text": text},))
