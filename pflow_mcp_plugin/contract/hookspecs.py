"""The hooks that any host calls and plugins implement.

pluggy project name `pflow`; a distribution names its plugin under the entry-point group `pflow`::

    [project.entry-points.pflow]
    mine = "my_package.plugin"

Every hook takes one argument; later versions only add attributes to that argument, so an
implementation written for 1.x keeps working. Hooks are synchronous. One bad plugin never brings
down the host: an implementation that raises is named, with its distribution, and skipped, unless
a hook says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:  # creating these classes would slow each start
    from pflow_mcp_plugin.contract.hosts import Command, Host
    from pflow_mcp_plugin.contract.problems import Problem
    from pflow_mcp_plugin.contract.registries import NodeSource
    from pflow_mcp_plugin.contract.runs import LockCheck, NodeRef, Run

PROJECT = "pflow"
ENTRY_POINT_GROUP = "pflow"
HOST_ENTRY_POINT_GROUP = "pflow.hosts"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


# Historic: pluggy calls it for plugins that are registered later, too.
@hookspec(historic=True)
def pflow_addhooks(manager: pluggy.PluginManager) -> None:
    """Hook of any host for adding further hook specs, so that plugins can extend each other.

    Called once for each plugin, when it is registered, before any other hook.

    Args:
        manager: The host's plugin manager; plugins call its `add_hookspecs` only.

    A plugin that raises here is unregistered and named.

    Example:
        >>> from pflow_mcp_plugin.contract import hookimpl
        >>> @hookimpl
        ... def pflow_addhooks(manager):
        ...     from my_package import hookspecs
        ...     manager.add_hookspecs(hookspecs)
    """


@hookspec
def pflow_configure(host: Host) -> None:
    """Hook for storing the handle on the host; an implementation does no I/O.

    Called once, after every plugin is registered and before any hook below.

    A plugin that raises here is unregistered and named; its `pflow_unconfigure` is not called.

    Example:
        >>> from pflow_mcp_plugin.contract import hookimpl
        >>> @hookimpl
        ... def pflow_configure(host):
        ...     if host.api < (1, 0):
        ...         raise RuntimeError("shout needs contract 1.0 or later")
    """


@hookspec
def pflow_unconfigure(host: Host) -> None:
    """Hook for releasing what `pflow_configure` acquired.

    Called exactly once, when the program ends, if `pflow_configure` returned.

    Example:
        >>> from pflow_mcp_plugin.contract import hookimpl
        >>> @hookimpl
        ... def pflow_unconfigure(host):
        ...     print("bye")
    """


@hookspec
def pflow_register_nodes(host: Host) -> Iterable[NodeSource]:
    """Hook for contributing nodes to the registry.

    Called when a node is first looked up or listed. The returned objects are cheap: they read their
    entries when one is needed, never here.

    Returns:
        The plugin's node sources.

    Example:
        >>> from pflow_mcp_plugin.contract import Entry, NodeSource, hookimpl
        >>> class Shouts(NodeSource):
        ...     name = "shouts"
        ...     prefixes = ("shout-",)
        ...     def fingerprint(self): return "1"
        ...     def get(self, node_type):
        ...         return next((e for e in self.entries() if e.node == node_type), None)
        ...     def entries(self):
        ...         yield Entry(node="shout-loud", class_name="Loud", module="my_package.nodes")
        >>> @hookimpl
        ... def pflow_register_nodes(host):
        ...     return [Shouts()]
    """
    return ()


@hookspec
def pflow_inject_params(node: NodeRef) -> Mapping[str, object] | None:
    """Hook for giving a node special parameters when a workflow is compiled.

    Called exactly once for each node of the workflow; afterwards `NodeRef.injected` contains what all
    plugins returned. The node's host is `node.host`.

    Returns:
        Parameters whose names have the form `__name__`, or None for other plugins' nodes. The host sets
        `__node_id__` itself.

    A plugin that raises here stops the compilation, as do two plugins that set one parameter.

    Example:
        >>> from pflow_mcp_plugin.contract import hookimpl
        >>> @hookimpl
        ... def pflow_inject_params(node):
        ...     return {"__volume__": 11} if node.type.startswith("shout-") else None
    """
    return None


@hookspec
def pflow_register_commands(host: Host) -> Iterable[Command]:
    """Hook for contributing commands to the command line.

    Called when the command line is built.

    Returns:
        Announcements; the code of a command is imported when it is called.

    Example:
        >>> from pflow_mcp_plugin.contract import Command, hookimpl
        >>> @hookimpl
        ... def pflow_register_commands(host):
        ...     return [Command(path=("shout",), help="Say it loudly.", load="my_package.cli:shout")]
    """
    return ()


@hookspec
def pflow_validate_config(host: Host) -> Iterable[Problem]:
    """Hook of any host for checking a plugin's own config.

    Called by `config check` and before a plugin's config is written; never at start-up.

    Returns:
        All problems, each with its path and the fix.

    Example:
        >>> from pflow_mcp_plugin.contract import Problem, hookimpl
        >>> @hookimpl
        ... def pflow_validate_config(host):
        ...     if not (host.paths.config / "shout.toml").exists():
        ...         yield Problem(message="Missing file shout.toml", severity="warning", kind="config")
    """
    return ()


@hookspec
def pflow_check_lock(check: LockCheck) -> Iterable[Problem]:
    """Hook of any host for comparing a workflow's nodes with a plugin's lock file.

    Called when the user asks for it, as with `pflow run --locked`: before anything runs, with all nodes of
    the workflow. A plugin judges its own nodes only.

    Returns:
        A problem for each node that is not what the lock file says, with the difference; all of them errors.
        That there is no lock file is one too, if the workflow has a node of the plugin. A warning, such as
        one about the file itself, stops nothing.

    A plugin that raises here, or returns anything else, stops the compilation: it has compared nothing.

    Example:
        >>> from pflow_mcp_plugin.contract import Problem, hookimpl
        >>> @hookimpl
        ... def pflow_check_lock(check):
        ...     for node in check.nodes:
        ...         if node.entry.source == "shouts" and node.entry.fingerprint != "1":
        ...             yield Problem(message=f"{node.type} is not the version that shout.lock names")
    """
    return ()


@hookspec
def pflow_run_context(run: Run) -> AbstractContextManager[object] | None:
    """Hook for holding something open while a workflow runs.

    Called after the workflow was compiled, before its first node. The context managers are
    entered in the order of their plugins and exited in reverse order, whatever happens.

    Returns:
        A context manager, or None if the workflow does not concern the plugin.

    A context manager that raises when it is entered fails the run; those entered before it are
    exited. When the run fails, each is exited as by a `with` statement: `__exit__` receives
    the failure, a `PflowError` (kind `interrupted` when the user stopped the run), and a generator
    has it raised at its `yield`, so it cleans up in `finally`. The outcome of the run is final by then:
    returning true does not change it, and any other exception from `__exit__` is reported as a warning.

    Example:
        >>> from contextlib import contextmanager
        >>> from pflow_mcp_plugin.contract import hookimpl
        >>> @contextmanager
        ... def microphone(run):
        ...     run.resources["shout"] = "on"
        ...     try:
        ...         yield
        ...     finally:
        ...         run.resources["shout"] = "off"
        >>> @hookimpl
        ... def pflow_run_context(run):
        ...     mine = any(node.type.startswith("shout-") for node in run.workflow.nodes)
        ...     return microphone(run) if mine else None
    """
    return None
