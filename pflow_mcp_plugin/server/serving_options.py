"""How pflow is served: what may be read, who calls, and what is offered beside the tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from pflow_mcp_plugin.contract import THE_USER, RunOrigin
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.server.served_tool import ServedRequest

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from pflow_mcp_plugin.server.list_changes import ListChanges

Caller = Callable[["ServerRequestContext[Any, Any]"], RunOrigin]
"""Returns who sent a request. Over HTTP, its `owner` comes from the authenticated token."""


class Resources(Protocol):
    """Resources that are served beside the tools; all methods run in a worker thread."""

    def resources(self, request: ServedRequest) -> Sequence[JSONObject]:
        """Return the served resources as on the wire: `uri`, `name`, `description`, `mimeType`."""
        ...

    def templates(self) -> Sequence[JSONObject]:
        """Return the templates of served resources as on the wire."""
        ...

    def read(self, request: ServedRequest, uri: str) -> Sequence[JSONObject]:
        """Return the contents of a served resource as on the wire: `uri`, `mimeType`, `text`.

        Raises:
            PflowError: It cannot be read; kind `not_found` if there is none.
        """
        ...


class Prompts(Protocol):
    """Prompts that are served beside the tools; all methods run in a worker thread."""

    def prompts(self) -> Sequence[JSONObject]:
        """Return the served prompts as on the wire: `name`, `description`, `arguments`."""
        ...

    def get(self, request: ServedRequest, name: str, arguments: Mapping[str, str]) -> JSONObject:
        """Return a served prompt as on the wire: `description`, `messages`.

        Raises:
            PflowError: There is none, or the arguments are wrong.
        """
        ...


def the_user(context: ServerRequestContext[Any, Any]) -> RunOrigin:
    """Return the origin of a request by whoever started the program, as over stdio."""
    meta: Mapping[str, Any] = context.meta or {}
    parent = meta.get("traceparent")
    return RunOrigin(trace_parent=parent) if isinstance(parent, str) and parent else THE_USER


@attrs.frozen(kw_only=True)
class ServingOptions:
    """How pflow is served.

    Attributes:
        root: The only folder from which files may be read; None where no file may.
        caller: Returns who sent a request.
        show_secrets: Whether secret settings may be shown; asked for each call.
        secrets: What else no answer and no trace may contain, such as the token of the server.
        resources: The resources that are served.
        prompts: The prompts that are served.
        changes: Tells clients that a list has changed; see `ListChanges`.
        background: Entered while the server runs, for tasks of its own.
    """

    root: Path | None = None
    caller: Caller = the_user
    show_secrets: Callable[[], bool] = lambda: False
    secrets: frozenset[str] = frozenset()
    resources: Resources | None = None
    prompts: Prompts | None = None
    changes: ListChanges | None = None
    background: Callable[[], AbstractAsyncContextManager[object]] = nullcontext
