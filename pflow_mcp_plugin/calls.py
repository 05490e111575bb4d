"""Calls of tools from Python, without a workflow.

    from pflow_mcp_plugin.calls import call, session

    total = call("demo", "add", a=1, b=2)
    with session() as tools:  # one connection to each server, for all threads
        totals = [tools.call("demo", "add", a=number, b=1) for number in range(10)]

Inside `session()`, the function `call` and the classes of `pflow_mcp_plugin.nodes` use the session's
connections too; outside, each opens one for its own call. Tools and their approval are those of the last
`pflow mcp sync`, variables are looked up in the settings, and the hooks around a call apply.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar, Token
from typing import Any, Self
from weakref import WeakSet

from pflow_mcp_plugin.client.pool import watched_calls
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.daemon_threads import Threads
from pflow_mcp_plugin.errors import McpError, Where
from pflow_mcp_plugin.execution.node import called, resource
from pflow_mcp_plugin.execution.result import ToolResult
from pflow_mcp_plugin.execution.runtime import Runtime, open_runtime

_AT_ONCE = 64
"""How many calls of `call_async` a session makes at a time; the others wait for their turn."""


class Session:
    """Connections that calls from Python share, in any thread, until the session is closed.

    A server is started by the first call that needs it. In another process, forked or spawned, a session
    opens connections of its own.
    """

    def __init__(self) -> None:
        self._begin()
        self._entered: list[Token[Session | None]] = []
        self.outer: Session | None = None
        self.thread: threading.Thread | None = None
        self._closed = False
        _all.add(self)

    def _begin(self) -> None:
        """Begin to call tools, without connections; in a forked child, too: they belong to the parent."""
        self._lock = threading.Lock()
        self._closing = ExitStack()
        self._runtime: Runtime | None = None
        self._threads = Threads(_AT_ONCE, "pflow-call")

    def __reduce__(self) -> tuple[type[Session], tuple[()]]:
        return Session, ()

    def __enter__(self) -> Self:
        self.outer, self.thread = _entered_here(), threading.current_thread()
        self._entered.append(_own.set(self))
        _open.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()
        self.close()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *_: object) -> None:
        import asyncio

        self._leave()
        await asyncio.to_thread(self.close)

    def _leave(self) -> None:
        with suppress(ValueError):  # it was entered in another task or thread
            _own.reset(self._entered.pop())

    def call(self, server: str, tool: str, /, **arguments: Any) -> JSON:
        """Call a tool from Python over the session's connection, once; see the function `call`."""
        return self.call_result(server, tool, **arguments).value

    def call_result(self, server: str, tool: str, /, **arguments: Any) -> ToolResult:
        """Call a tool from Python over the session's connection; see the function `call_result`."""
        return called(self.runtime(), server, tool, arguments)

    def read_resource(self, server: str, uri: str) -> JSON:
        """Read a resource from Python over the session's connection, once; see `read_resource`."""
        return resource(self.runtime(), server, uri)

    async def call_async(self, server: str, tool: str, /, **arguments: Any) -> JSON:
        """Call a tool from Python without blocking the event loop; see the function `call_async`."""
        import asyncio

        begun: list[Future[Any]] = []
        cancelled = threading.Event()

        def note(future: Future[Any]) -> None:
            begun.append(future)
            if cancelled.is_set():  # before the call began
                future.cancel()

        def work() -> JSON:
            with watched_calls(note):
                return self.call(server, tool, **arguments)

        with self._lock:
            self._require_open()
            running = self._threads.submit(work)
        try:
            return await asyncio.wrap_future(running)
        except asyncio.CancelledError:
            cancelled.set()  # first: `note` checks it after adding a call
            for future in tuple(begun):
                future.cancel()
            raise

    def close(self) -> None:
        """End a session of calls from Python: its servers end, running calls fail. Safe to call twice."""
        with self._lock:
            self._closed = True
            closing, self._closing = self._closing, ExitStack()
            self._runtime = None
        with suppress(ValueError):
            _open.remove(self)
        try:
            closing.close()
        finally:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def runtime(self) -> Runtime:
        """Return what makes the calls of tools from Python inside `session()`, opened at the first one.

        Raises:
            McpError: The session is closed.
        """
        with self._lock:
            self._require_open()
            if self._runtime is None:
                self._runtime = self._closing.enter_context(open_runtime())
            return self._runtime

    def _require_open(self) -> None:
        if self._closed:
            raise McpError(
                "The session is closed",
                where=Where(phase="call"),
                next_step="Make the call inside `with session()`, or open another session",
            )


_own: ContextVar[Session | None] = ContextVar("pflow_mcp_session", default=None)
_open: list[Session] = []
"""The sessions that are open in the process, in the order in which they were opened."""
_all: WeakSet[Session] = WeakSet()


def _in_child() -> None:
    for each in list(_all):
        each._begin()  # noqa: SLF001 - this module's own class


@atexit.register
def _close_all() -> None:
    for each in list(_all):
        each.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def session() -> Session:
    """Return a new session for calls from Python: inside its `with`, all calls use its connections.

    That holds in threads, too, unless several sessions are open in other threads: then the session's methods
    say which one is meant.
    """
    return Session()


def call(server: str, tool: str, /, **arguments: Any) -> JSON:
    """Call a tool from Python, once, over the connection of the open session, if there is one.

    Args:
        server: The server's name in the config.
        tool: The tool's name, raw or as spelled in node types.
        arguments: The arguments.

    Returns:
        The result: the structured content, else the text, parsed if it is a JSON object or array.

    Raises:
        PflowError: The call failed, or could not be made; `ran` says whether it reached the tool.
    """
    return call_result(server, tool, **arguments).value


def call_result(server: str, tool: str, /, **arguments: Any) -> ToolResult:
    """Call a tool from Python, and also return what it answered besides its result.

    Args:
        server: The server's name in the config.
        tool: The tool's name, raw or as spelled in node types.
        arguments: The arguments.

    Returns:
        The result as `value`, and as `content_blocks` texts, media and links that came with it.

    Raises:
        PflowError: The call failed, or could not be made; `ran` says whether it reached the tool.
    """
    with current_runtime() as runtime:
        return called(runtime, server, tool, arguments)


def read_resource(server: str, uri: str) -> JSON:
    """Read a resource from Python, once, over the connection of the open session, if there is one.

    Args:
        server: The server's name in the config.
        uri: The URI of the resource, such as that of a link in the result of a tool.

    Returns:
        Its `uri`, `mimeType` and `text`, or the file with its bytes; a list if it has several parts.

    Raises:
        PflowError: It could not be read.

    Example:
        >>> link = call("everything", "get-resource-links", count=1)[1]
        >>> read_resource("everything", link["uri"])["text"]
    """
    with current_runtime() as runtime:
        return resource(runtime, server, uri)


async def call_async(server: str, tool: str, /, **arguments: Any) -> JSON:
    """Call a tool from Python without blocking the event loop; cancelling the task cancels the call.

    Args:
        server: The server's name in the config.
        tool: The tool's name, raw or as spelled in node types.
        arguments: The arguments.

    Raises:
        PflowError: The call failed, or could not be made; `ran` says whether it reached the tool.
    """
    shared = _current()
    if shared is not None:
        return await shared.call_async(server, tool, **arguments)
    import asyncio

    alone = Session()
    try:
        return await alone.call_async(server, tool, **arguments)
    finally:
        await asyncio.to_thread(alone.close)


@contextmanager
def current_runtime() -> Iterator[Runtime]:
    """Yield what makes calls from Python here: that of the open session, or one for these calls alone."""
    shared = _current()
    if shared is not None:
        yield shared.runtime()
        return
    with open_runtime() as runtime:
        yield runtime


def _current() -> Session | None:
    """Return the session in which this thread or task calls tools; None if each call opens a connection."""
    own = _entered_here()
    if own is not None or threading.current_thread() is threading.main_thread():
        return own
    innermost = [each for each in _open if all(each is not other.outer for other in _open)]
    if len(innermost) > 1:
        raise McpError(
            "Several sessions are open, and this thread belongs to none of them",
            where=Where(phase="call"),
            next_step="Call a method of one of the sessions, or open one in this thread",
        )
    return innermost[0] if innermost else None


def _entered_here() -> Session | None:
    here = [each for each in _open if each.thread is threading.current_thread()]
    return _own.get() or (here[-1] if here else None)
