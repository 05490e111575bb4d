"""The hooks of other plugins around a tool call (prepare and answer), and the progress of calls."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from functools import partial

import attrs
import pluggy

from pflow_mcp_plugin.contract import PflowError, Ran, Run
from pflow_mcp_plugin.contract.problems import described, is_interruption
from pflow_mcp_plugin.errors import CallFailed, McpError, Where
from pflow_mcp_plugin.exchange import CallResult, ToolCall
from pflow_mcp_plugin.terminal.looks import printable

PREPARE = "pflow_mcp_prepare_call"
ANSWER = "pflow_mcp_call_tool"

Answer = Callable[[ToolCall], CallResult]

_LONGEST = 200
"""Characters of a message about progress; a display cuts it further to fit."""


@attrs.frozen
class CallHooks:
    """The hooks of other plugins around a tool call."""

    relay: pluggy.HookRelay | None = None  # None outside a host

    def prepare(self, call: ToolCall, check: Callable[[ToolCall], ToolCall]) -> ToolCall:
        """Return the call as the hooks of plugins changed it; each receives what the previous one returned.

        `check` returns a changed call as it can be made, or raises `McpError`. Raises `CallRefused` if a
        plugin vetoes the call, `CallFailed` if one fails, or returns what cannot be made: nothing was sent.
        """
        # pluggy would begin with the plugin that was registered last, and pass the same call to each.
        found = sorted(self._implementations(PREPARE), key=lambda each: each.trylast - each.tryfirst)
        for implementation in found:
            changed = _asked(implementation, PREPARE, call)
            if changed is not None and not isinstance(changed, ToolCall):
                raise _broken(implementation, PREPARE, call, f"returned {type(changed).__name__}")
            try:
                call = check(changed) if changed else call
            except McpError as error:
                how = f"returned a call that cannot be made: {error.message}"
                raise _broken(implementation, PREPARE, call, how) from error
        return call

    @property
    def may_replace_servers(self) -> bool:
        return not all(map(_is_wrapper, self._implementations(ANSWER)))

    def around(self, ours: Answer) -> Answer:
        """Return what answers a call: the first hook that does, or `ours`; wrappers may replace the answer.

        If a plugin fails, that is a `CallFailed`, and the call is never repeated.
        """
        return partial(self._answer, ours) if self._implementations(ANSWER) else ours

    def _answer(self, ours: Answer, call: ToolCall) -> CallResult:
        checked: list[CallResult] = []  # that of `last`: a server's is not a plugin's to answer for
        begun = any(it.tryfirst and not _is_wrapper(it) for it in self._implementations(ANSWER))

        def last() -> CallResult:
            nonlocal begun
            begun = True
            # pluggy calls an extra implementation before the ordinary ones, but ours must be last
            for implementation in reversed(self._implementations(ANSWER)):
                if not (implementation.tryfirst or _is_wrapper(implementation)):
                    answer = _asked(implementation, ANSWER, call, ran="unknown")
                    if answer is not None:
                        checked.append(_checked(answer, implementation, call))
                        return checked[0]
            checked.append(ours(call))
            return checked[0]

        try:
            found = getattr(self.relay, ANSWER).call_extra([last], {"call": _own(call)})
        except BaseException as error:  # code of other plugins may raise anything
            if isinstance(error, PflowError):
                if error.ran is None:  # a wrapper may raise it after the tool was called
                    error.ran = "unknown" if begun else "not ran"
                error.details = {"server": call.server, "tool": call.label, **error.details}
            if isinstance(error, PflowError) or is_interruption(error):
                raise
            raise _broken(None, ANSWER, call, f"raised {described(error)}", ran="unknown") from error
        return checked[0] if checked and found is checked[0] else _checked(found, None, call)

    def _implementations(self, name: str) -> list[pluggy.HookImpl]:
        caller = getattr(self.relay, name, None)
        return [] if caller is None else list(caller.get_hookimpls())


def _asked(implementation: pluggy.HookImpl, name: str, call: ToolCall, *, ran: Ran = "not ran") -> object:
    if name == PREPARE and _is_wrapper(implementation):
        raise _broken(implementation, name, call, "is a wrapper, which this hook does not support")
    try:
        # An implementation need not take the argument; pluggy has refused any that takes others.
        return implementation.function(*[_own(call) for _ in implementation.argnames])
    except BaseException as error:  # code of other plugins may raise anything
        if isinstance(error, PflowError) or is_interruption(error):
            raise
        raise _broken(implementation, name, call, f"raised {described(error)}", ran=ran) from error


def _own(call: ToolCall) -> ToolCall:
    """Return the call for a plugin that may change the arguments in place: nodes and inputs share them."""
    return attrs.evolve(call, arguments=deepcopy({**call.arguments}))


def _checked(answer: object, implementation: pluggy.HookImpl | None, call: ToolCall) -> CallResult:
    def broken(what: str) -> CallFailed:
        return _broken(implementation, ANSWER, call, f"returned {what}", ran="unknown")

    if not isinstance(answer, CallResult):
        raise broken(type(answer).__name__)
    for block in answer.content:
        if block.get("type") == "text" and not isinstance(block.get("text"), str):
            raise broken("a text block without text")
    try:
        # `default` is for mappings that are no dict; it raises for what JSON does not have.
        json.dumps([answer.structured, answer.content], allow_nan=False, default=lambda it: {**it})
    except (TypeError, ValueError, RecursionError) as error:  # ValueError: NaN, or it contains itself
        raise broken(f"what is not JSON: {error}") from error
    return answer


def _broken(
    implementation: pluggy.HookImpl | None, name: str, call: ToolCall, how: str, *, ran: Ran = "not ran"
) -> CallFailed:
    plugin = f"Plugin {implementation.plugin_name}" if implementation else "A plugin"
    return CallFailed(
        f"{plugin}: {name} {how}; tool {call.label} on server {call.server} "
        + ("was not called" if ran == "not ran" else "may have been called"),
        where=Where(server=call.server, tool=call.label, phase="call"),
        ran=ran,
        next_step="Run `pflow plugins` to identify it; PFLOW_DISABLE_PLUGINS=NAME disables it",
    )


def _is_wrapper(implementation: pluggy.HookImpl) -> bool:
    return bool(implementation.wrapper or implementation.hookwrapper)


def note_progress(run: Run, call: ToolCall, done: float, total: float | None, text: str | None) -> None:
    """Pass on a call's progress, between the hooks before and after it: to the trace, and for display."""
    if call.node_id:
        run.annotate(call.node_id, {"progress": {"done": done, "total": total, "message": text}})
        line = " ".join(printable((text or "")[: 2 * _LONGEST]).split())
        run.report_progress(call.node_id, done, total, line[:_LONGEST])
