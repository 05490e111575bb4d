"""The parts of the host that answers are made from; a host need not have them."""

from __future__ import annotations

from pflow_mcp_plugin.contract import Host, Library, PflowError, Runner, Settings, Traces


def runner_of(host: Host) -> Runner:
    """Return the runner of a host.

    Raises:
        PflowError: Kind `usage`: it has none.
    """
    if host.runner is None:
        raise PflowError("This pflow does not run workflows", kind="usage")
    return host.runner


def library_of(host: Host) -> Library:
    """Return the library of a host.

    Raises:
        PflowError: Kind `usage`: it has none.
    """
    if host.library is None:
        raise PflowError("This pflow does not save workflows", kind="usage")
    return host.library


def settings_of(host: Host) -> Settings:
    """Return the settings of a host.

    Raises:
        PflowError: Kind `usage`: it has none.
    """
    if host.settings is None:
        raise PflowError("This pflow does not save settings", kind="usage")
    return host.settings


def traces_of(host: Host) -> Traces:
    """Return the traces of a host.

    Raises:
        PflowError: Kind `usage`: it has none.
    """
    if host.traces is None:
        raise PflowError("This pflow writes no traces", kind="usage")
    return host.traces
