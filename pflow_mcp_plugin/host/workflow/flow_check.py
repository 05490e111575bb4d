"""The check of a workflow's data flows against the user's policy."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from pflow_mcp_plugin.contract import Problem
from pflow_mcp_plugin.host.flow_policy import FlowPolicy, read_policy
from pflow_mcp_plugin.host.workflow.workflow_check import Checked

if TYPE_CHECKING:  # most runs have no policy and search for nothing
    from pflow_mcp_plugin.host.workflow.data_flows import FoundFlows


def denied_flows(checked: Checked, config: Path, given: Iterable[str] = ()) -> tuple[Problem, ...]:
    """Return an error for each data flow through a workflow that the user's policy denies.

    Args:
        checked: The workflow.
        config: The user's config folder.
        given: The names of the inputs of a run.

    Raises:
        PflowError: Kind `config`: the policy has mistakes.
    """
    policy = read_policy(config)
    if policy is None:
        return ()
    from pflow_mcp_plugin.host.workflow.data_flows import find_flows

    return find_flows(checked, policy, given).problems


def every_flow(checked: Checked, config: Path) -> FoundFlows:
    """Return the data flows through a workflow that the user's policy denies, then the other risky ones.

    Args:
        checked: The workflow.
        config: The user's config folder.

    Raises:
        PflowError: Kind `config`: the policy has mistakes.
    """
    from pflow_mcp_plugin.host.workflow.data_flows import find_flows

    return find_flows(checked, read_policy(config) or FlowPolicy(), every=True)
