"""The host's part of `config check`: its own files and its installation."""

from __future__ import annotations

from collections.abc import Iterator

from pflow_mcp_plugin.contract import PflowError, Problem
from pflow_mcp_plugin.host.embedded_host import EmbeddedHost
from pflow_mcp_plugin.host.entrypoints import entry_points, is_own_script, own_distribution
from pflow_mcp_plugin.host.flow_policy import POLICY_FILE, RESERVED, matches, read_policy
from pflow_mcp_plugin.host.registry.node_sources import SavedEntries
from pflow_mcp_plugin.host.retention import check_retention
from pflow_mcp_plugin.host.stored_settings import StoredSettings

_SCRIPT = "pflow"


def check_own_config(host: EmbeddedHost) -> list[Problem]:
    """Return the problems of the host's own config: settings, saved registry and installed scripts."""
    paths = host.paths
    found = StoredSettings(paths.config / "settings.json").check()
    saved = SavedEntries(paths.data / "registry.json", found.append)
    try:
        list(saved.entries())
    except PflowError as error:
        found.append(Problem(message=error.message, kind="config", source=str(saved.store.path)))
    return [*found, *_policy_mistakes(host), *check_retention(host.paths.config), *_script_clashes()]


def _policy_mistakes(host: EmbeddedHost) -> Iterator[Problem]:
    """Yield the mistakes in the policy on data flows, and a warning for each word that matches nothing."""
    try:
        policy = read_policy(host.paths.config)
    except PflowError as error:
        step = next(iter(error.suggestions), "")
        yield from error.problems or (Problem(message=error.message, suggestion=step, kind="config"),)
        return
    if policy is None:
        return
    known = [row.node for row in host.registry.rows("")]
    for rule in (*policy.deny, *policy.allow):
        for key, word in (("from", rule.begin), ("to", rule.end)):
            if not (word in RESERVED or matches(word, known, ())):
                yield Problem(
                    message=f"{word} matches no node type, so the rule has no effect",
                    path=f"{rule.path}.{key}",
                    suggestion="See: pflow registry list",
                    severity="warning",
                    kind="config",
                    source=str(host.paths.config / POLICY_FILE),
                )


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
