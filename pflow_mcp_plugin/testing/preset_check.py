"""The check that a preset works: its server starts and lists its tools."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from pflow_mcp_plugin.client import Pool
from pflow_mcp_plugin.config.expansion import host_lookup
from pflow_mcp_plugin.config.locations import sign_in_folder, stderr_folder
from pflow_mcp_plugin.contract import PflowError, Problem
from pflow_mcp_plugin.discovery.servers import servers
from pflow_mcp_plugin.discovery.tool_filter import allows
from pflow_mcp_plugin.discovery.tool_sync import sync
from pflow_mcp_plugin.presets import manifest_check
from pflow_mcp_plugin.presets.collection import OfferedPreset
from pflow_mcp_plugin.testing.pflow_host import PflowHost, open_pflow_host
from pflow_mcp_plugin.types import ServerPreset


def assert_preset_starts(
    preset: str | ServerPreset, inputs: Mapping[str, str] | None = None, *, host: PflowHost | None = None
) -> tuple[str, ...]:
    """Check that the server of a preset starts and lists its tools.

    Args:
        preset: A preset, or the name of one that an installed plugin offers: this checks the entry point too.
        inputs: Values for its inputs.
        host: pflow for this test; by default one that is closed again.

    Returns:
        The raw names of the tools that become nodes.

    Raises:
        AssertionError: It cannot be added or started, lists no tools, or `tools`, `rename` or
            `manifest_hash` do not fit its tools. The message says what happened and what to do.
    """
    __tracebackhide__ = True  # pytest shows the line of the test
    if host is not None:
        return _tools(host, preset, inputs)
    with tempfile.TemporaryDirectory(prefix="pflow-") as folder, open_pflow_host(Path(folder)) as own:
        return _tools(own, preset, inputs)


def _tools(host: PflowHost, preset: str | ServerPreset, inputs: Mapping[str, str] | None) -> tuple[str, ...]:
    __tracebackhide__ = True
    name = preset if isinstance(preset, str) else preset.name
    try:
        found = host.find_preset(preset) if isinstance(preset, str) else preset
        host.add_preset(found, inputs)
    except PflowError as error:
        raise _failure(f"Preset {name} cannot be added", error, host.warnings) from error
    known = servers(host.host.paths)
    with Pool(
        lambda _: None,
        stderr_folder=stderr_folder(host.host.paths),
        sign_in_folder=sign_in_folder(host.host.paths),
    ) as pool:
        (synced,) = sync([name], known, pool, host_lookup(host.host))
    if synced.error is not None:
        raise _failure(f"Preset {name} does not start", synced.error)
    server, content = known.store.get(name), known.catalog.file(name)
    listed, found_hash = (content.tools, content.manifest_hash) if content else ((), "")
    unfit = [*synced.notes, *(f"{tool} is malformed: {reason}" for tool, reason in synced.skipped)]
    offer = OfferedPreset(preset=found, plugin="of this test")
    difference = manifest_check.difference(offer, server, found_hash)
    unfit += [f"{difference.message}; all of it: {found_hash}"] if difference else []
    if unfit:
        raise AssertionError("\n  ".join([f"Preset {name} does not fit its server:", *unfit]))
    tools = tuple(tool.name for tool in listed if allows(server.tools, tool.name))
    if not tools:
        raise AssertionError(f"Preset {name} starts, but none of its tools becomes a node")
    return tools


def _failure(what: str, error: PflowError, warnings: Sequence[Problem] = ()) -> AssertionError:
    """Return the failure of a test: what happened, what was reported on the way, the next steps."""
    steps = [f"-> {step}" for step in error.suggestions]
    return AssertionError("\n  ".join([f"{what}: {error}", *map(str, warnings), *steps]))
