"""Which values the expressions of a node read, for the checks of inputs and of data flows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.workflow.expression_places import ExpressionPlace
from pflow_mcp_plugin.host.workflow.expressions import parsed
from pflow_mcp_plugin.host.workflow.expressions.shapes import Path, Reading, Shape


@attrs.frozen
class ExpressionRead:
    """A value that an expression reads.

    Attributes:
        param: The parameter with the expression.
        path: The names and indexes that lead to the value.
    """

    param: str
    path: Path

    @property
    def root(self) -> str:
        """The first name of the value that the expression reads."""
        return str(self.path[0])

    @property
    def key(self) -> str:
        """The name after that; empty if the expression reads the whole."""
        return str(self.path[1]) if len(self.path) > 1 else ""


def expression_reads(
    places: Iterable[ExpressionPlace], everything: Iterable[str], *, on_data: bool
) -> Iterator[ExpressionRead]:
    """Yield what expressions read; one that cannot be parsed reads nothing.

    Args:
        places: The expressions.
        everything: The names in scope, for those that read all of them.
        on_data: Whether names in the params are looked up in the parameter `data`.
    """
    for place in places:
        try:
            expression = parsed(place.text)
        except PflowError:
            continue
        reading = Reading.of(expression, current=Shape() if on_data and place.param != "when" else None)
        if reading.everything:
            yield from (ExpressionRead(place.param, (name,)) for name in everything)
        yield from (ExpressionRead(place.param, path) for path in reading.longest_paths)
