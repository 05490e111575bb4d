"""A tool that this package serves: its declaration, and the function that answers a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs

from pflow_mcp_plugin.contract import THE_USER, Host, RunControl, RunOrigin
from pflow_mcp_plugin.contract.json_types import JSONObject


@attrs.frozen(kw_only=True)
class ServedRequest:
    """A call of a served tool, as the function that answers it sees it.

    Attributes:
        host: The host that does the work.
        root: The only folder from which files may be read; None over HTTP, where no file may.
        origin: Who calls, and through which workflows.
        control: Receives the progress of a run; cancelled when the client cancels its request.
        show_secrets: Whether the user's config allows secret settings to be shown.
    """

    host: Host
    root: Path | None = None
    origin: RunOrigin = THE_USER
    control: RunControl = attrs.field(factory=RunControl)
    show_secrets: bool = False


@attrs.frozen(kw_only=True)
class Claims:
    """What a served tool says of its effects: the annotations of MCP.

    Attributes:
        read_only: It changes nothing.
        destructive: It may delete or overwrite; false where it only adds.
        idempotent: Called twice with the same arguments, it has no further effect.
        open_world: It reaches beyond this machine.
    """

    read_only: bool = False
    destructive: bool = True
    idempotent: bool = False
    open_world: bool = True


Answer = Callable[[ServedRequest, Mapping[str, Any]], JSONObject]
"""Answers a call of a served tool: returns the envelope, or raises PflowError. Runs in a worker thread."""


@attrs.frozen(kw_only=True)
class ServedTool:
    """A tool that pflow serves.

    Attributes:
        name: Its name on the wire.
        title: Its name for people.
        description: What it does and when to call it, written for an agent.
        input_schema: The JSON Schema of its arguments.
        output_schema: The JSON Schema of its structured result.
        claims: Its effects.
        answer: Answers a call.
        bare: Whether its structured result is the `data` of the envelope alone, as `output_schema` says;
            a failure is the envelope in any case.
        reveals: Whether its answer is not redacted while the user's config allows secrets to be shown.
    """

    name: str
    title: str
    description: str
    input_schema: JSONObject
    output_schema: JSONObject
    claims: Claims
    answer: Answer
    bare: bool = False
    reveals: bool = False
