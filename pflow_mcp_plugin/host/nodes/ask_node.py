"""The node `ask`, which returns the answer of a person."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.nodes.value_nodes import OutputsNode, argument
from pflow_mcp_plugin.host.workflow.workflow_reads import ASKING


class Ask(OutputsNode):
    """The node `ask` asks a question, and shows the steps that follow."""

    def prep(self, shared: MutableMapping[str, Any]) -> str:
        return str(argument(self.params, {}, "question"))

    def exec(self, prep_res: str) -> dict[str, Any]:
        asking = self.params.get(ASKING)
        if asking is None:
            raise PflowError("Nobody can be asked outside a run of pflow", ran="not ran")
        answer: str = asking(prep_res, [str(choice) for choice in self.params.get("choices") or ()])
        return {"answer": answer, "error": None}
