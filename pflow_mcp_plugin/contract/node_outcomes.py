"""The outcome of running a single node, with every path in what it wrote."""

from __future__ import annotations

import attrs

from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.contract.outcomes import Outcome
from pflow_mcp_plugin.contract.validators import items, text, valid_name


@attrs.frozen(kw_only=True)
class ValuePath:
    """A path inside a value that a node wrote, as any host describes it.

    Attributes:
        path: The path as a template spells it after the node's id: `result.items[0].name`.
        type: The type of the value there: `str`, `int`, `float`, `bool`, `dict`, `list` or `None`.
        sample: The value there, shortened; None for objects and lists, whose members have paths of their own.
    """

    path: str = attrs.field(validator=text)
    type: str = attrs.field(validator=valid_name)
    sample: JSON = None


@attrs.frozen(kw_only=True)
class NodeOutcome:
    """The outcome of running a single node in any host.

    Attributes:
        node: The node type that ran, also if it was named by an alias.
        outcome: The outcome of the run.
        structure: Every path in the outputs, with type and sample; outermost first.
    """

    node: str = attrs.field(validator=valid_name)
    outcome: Outcome
    structure: tuple[ValuePath, ...] = attrs.field(default=(), converter=items)
