"""The parts of the host that answers are made from; a host need not have them."""

from __future__ import annotations

from typing import TypeVar

from pflow_mcp_plugin.contract import Host, Library, PflowError, Runner, Settings, Traces

_Part = TypeVar("_Part")


def runner_of(host: Host) -> Runner:
    """Return the runner of a host; raise `PflowError` of kind `usage` if it has none."""
    return _present(host.runner, "run workflows")


def library_of(host: Host) -> Library:
    """Return the library of a host; raise `PflowError` of kind `usage` if it has none."""
    return _present(host.library, "save workflows")


def settings_of(host: Host) -> Settings:
    """Return the settings of a host; raise `PflowError` of kind `usage` if it has none."""
    return _present(host.settings, "save settings")


def traces_of(host: Host) -> Traces:
    """Return the traces of a host; raise `PflowError` of kind `usage` if it has none."""
    return _present(host.traces, "write traces")


def _present(part: _Part | None, purpose: str) -> _Part:
    if part is None:
        raise PflowError(f"This pflow does not {purpose}", kind="usage")
    return part
