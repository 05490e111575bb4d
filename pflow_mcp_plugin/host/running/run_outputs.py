"""The outputs of a run."""

from __future__ import annotations

from functools import partial

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.foreign_code import foreign_code
from pflow_mcp_plugin.host.running.steps import Steps
from pflow_mcp_plugin.host.workflow.findings import said
from pflow_mcp_plugin.host.workflow.templates import TemplateReference, parse
from pflow_mcp_plugin.host.workflow.workflow_document import OutputSpec


def collect_outputs(steps: Steps) -> dict[str, object]:
    """Return the outputs of a run: those declared, else what the last node wrote.

    A declared output is None when it names a node that the run did not reach, or recovered from, or an
    optional input that was not given.

    Raises:
        PflowError: A node ran and did not write what an output names.
    """
    declared = steps.values.document.outputs
    if declared:
        return {name: _output(steps, output) for name, output in declared.items()}
    values = steps.values
    ran = (it for it in reversed(values.written.items()) if it[0] not in values.skipped)
    last, written = next(ran, ("", {}))
    nodes = steps.values.document.nodes
    left_out = next((node.constructs.repeated_outputs for node in nodes if node.id == last), frozenset())
    return {
        key: value
        for key, value in written.items()
        if key not in left_out and not (key == "error" and value is None)
    }


def _output(steps: Steps, output: OutputSpec) -> object:
    parts = [part for part in parse(output.source) if isinstance(part, TemplateReference)]
    if any(steps.values.is_absent(part) for part in parts):
        return None
    with foreign_code(partial(_unreadable, output), passing=(PflowError,)):  # nodes may write any objects
        return steps.attempts.resolve(output.source, f"output {output.name}")


def _unreadable(output: OutputSpec, error: BaseException) -> PflowError:
    return PflowError(f"output {output.name} ({output.source}) cannot be read: {said(error)}")
