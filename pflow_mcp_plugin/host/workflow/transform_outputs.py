"""The outputs of a `transform`, with what is known of their types from its expressions."""

from __future__ import annotations

import attrs

from pflow_mcp_plugin.contract import Entry, Field, PflowError
from pflow_mcp_plugin.host.workflow.expression_places import ExpressionPlace, param_expressions
from pflow_mcp_plugin.host.workflow.expressions import parsed
from pflow_mcp_plugin.host.workflow.expressions.shapes import Reading
from pflow_mcp_plugin.host.workflow.workflow_document import NodeSpec


def transform_outputs(node: NodeSpec, entry: Entry) -> tuple[Field, ...]:
    """Return the outputs of a transform: `result` of its expression, and those it names itself."""
    return tuple(_output(place) for place in param_expressions(node, entry))


def _output(place: ExpressionPlace) -> Field:
    try:
        field = Reading.of(parsed(place.text)).result.field(place.output)
    except PflowError:  # the check reports it
        field = Field(key=place.output)
    return attrs.evolve(field, description=place.text)
