"""`pflow run-node`, also without these words: `pflow NODE --flag value`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pflow_mcp_plugin.contract import Report
from pflow_mcp_plugin.host.embedded_host import EmbeddedHost

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract import Suggestion


class _RunNode:
    """Takes its words as they are: which flags there are, only the nodes say."""

    def main(
        self, args: Sequence[str], prog_name: str, *, standalone_mode: bool, obj: EmbeddedHost, **extra: Any
    ) -> Report:
        """Run the nodes that the words name; see `CommandLike`."""
        return obj.run_chain(args, prog_name)

    def complete_words(
        self, words: Sequence[str], incomplete: str, *, obj: EmbeddedHost
    ) -> Sequence[Suggestion]:
        """Return the nodes and flags that may follow; see `CommandLike`."""
        return obj.complete_chain(words, incomplete)


run_node = _RunNode()
