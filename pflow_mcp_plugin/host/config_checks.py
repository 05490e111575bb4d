"""The host's part of `config check`: its own files and its installation."""

from __future__ import annotations

from collections.abc import Iterator

from pflow_mcp_plugin.contract import PflowError, Problem
from pflow_mcp_plugin.host.embedded_host import EmbeddedHost
from pflow_mcp_plugin.host.entrypoints import entry_points, is_own_script, own_distribution
from pflow_mcp_plugin.host.registry.saved_entries import SavedEntries
from pflow_mcp_plugin.host.stored_settings import StoredSettings

_SCRIPT = "pflow"


def check_own_config(host: EmbeddedHost) -> list[Problem]:
    """Return the problems of the host's own config: settings, saved registry and installed scripts."""
    paths = host.paths
    found = StoredSettings(paths.config / "settings.json").check()
    saved = SavedEntries(paths.data / "registry.json", found.append, host.registry.plugin_origin)
    try:
        list(saved.entries())
    except PflowError as error:
        found.append(Problem(message=error.message, kind="config", source=str(saved.store.path)))
    return [*found, *_script_clashes()]


def _script_clashes() -> Iterator[Problem]:
    """Yield a warning for each other distribution that installs a script of our name."""
    mine = own_distribution()
    for script in entry_points("console_scripts"):
        if script.name == _SCRIPT and mine and not is_own_script(script):
            other = f"{script.distribution.name} {script.distribution.version}"
            yield Problem(
                message=f"{other} and {mine.name} {mine.version} both install a script `{_SCRIPT}`",
                suggestion=f"Install them in separate environments, or start this one as `{mine.name}`",
                severity="warning",
                kind="config",
                source=script.distribution.name,
            )
