"""What a pflow server offers: the tools that the user chose, with resources and prompts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from pflow_mcp_plugin.contract import Host
from pflow_mcp_plugin.server.prompts import PflowPrompts
from pflow_mcp_plugin.server.resources import PflowResources
from pflow_mcp_plugin.server.saved_workflow_tools import SavedWorkflowTools
from pflow_mcp_plugin.server.served_tool import ServedTool, matching, selected
from pflow_mcp_plugin.server.serving_options import ServingOptions
from pflow_mcp_plugin.server.tools.all_tools import ALL_TOOLS


class Offer:
    """What a pflow server offers.

    Args:
        host: The host that does the work.
        patterns: Names of tools to serve, or patterns; all if there are none.
        workflows: Names of saved workflows that are tools of their own, or patterns; none by default.
        read_only: Whether to serve only tools that change nothing.

    Raises:
        PflowError: Kind `usage`: a pattern matches no tool.
    """

    def __init__(
        self,
        host: Host,
        patterns: Sequence[str] = (),
        workflows: Sequence[str] = (),
        *,
        read_only: bool = False,
    ) -> None:
        self._host = host
        self._patterns = patterns
        self._read_only = read_only
        choose = matching if workflows else selected  # a workflow that is saved later may match a pattern
        self._own = choose(ALL_TOOLS, patterns, read_only=read_only)
        names = [tool.name for tool in ALL_TOOLS]
        self._saved = SavedWorkflowTools(host, workflows, names) if workflows else None

    def tools(self) -> tuple[ServedTool, ...]:
        """Return the tools on offer at the moment."""
        if self._saved is None:
            return self._own
        return (*self._own, *matching(self._saved(), self._patterns, read_only=self._read_only))

    def options(self, root: Path | None = None) -> ServingOptions:
        """Return the options with which it is served; the caller adds those of the transport.

        Args:
            root: The only folder from which files may be read; None where no file may.
        """
        from pflow_mcp_plugin.server.library_watch import watched
        from pflow_mcp_plugin.server.list_changes import Changed, ListChanges

        changes = ListChanges()
        lists: list[Changed] = ["resources"] if self._saved is None else ["tools", "resources"]
        return ServingOptions(
            root=root,
            resources=PflowResources(),
            prompts=PflowPrompts(),
            changes=changes,
            background=partial(watched, self._host.library, changes, lists),
        )
