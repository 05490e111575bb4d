"""`pflow workflow save | list | show | delete | graph | export-python`."""

from __future__ import annotations

from pathlib import Path

import click

from pflow_mcp_plugin.contract import Report, SavedWorkflow
from pflow_mcp_plugin.host.cli.name_completion import files, saved_names, workflows
from pflow_mcp_plugin.host.cli.output import problem_lines
from pflow_mcp_plugin.host.cli.run_commands import find_workflow, read_workflow
from pflow_mcp_plugin.host.cli.tables import table
from pflow_mcp_plugin.host.embedded_host import EmbeddedHost
from pflow_mcp_plugin.host.printable_json import to_json
from pflow_mcp_plugin.host.workflow import normalise
from pflow_mcp_plugin.host.workflow.document_reader import read_document
from pflow_mcp_plugin.host.workflow.findings import Findings, did_you_mean, errors_in, listing, refusal
from pflow_mcp_plugin.host.workflow.graph import Graph
from pflow_mcp_plugin.host.workflow.workflow_document import WorkflowDocument
from pflow_mcp_plugin.storage import write_output

_HEADERS = ("NAME", "VERSION", "SAVED", "DESCRIPTION")


@click.command()
@click.argument("file", shell_complete=files)
@click.option(
    "--name",
    required=True,
    shell_complete=saved_names,
    help="Name of the saved workflow: a-z, 0-9 and hyphens.",
)
@click.option("--description", default="", help="One line that says what it is for.")
@click.pass_obj
def save(host: EmbeddedHost, file: str, name: str, description: str) -> Report:
    """Save the workflow in FILE under a name; earlier versions are kept."""
    workflow = read_workflow(Path(file))
    saved, problems = host.save_workflow(workflow, name, description)
    lines = [f"Saved {name}, version {saved.version}; run it with: pflow run {name}"]
    return Report(data=saved.to_dict(), text="\n".join([*lines, *problem_lines(tuple(problems))]))


@click.command()
@click.option(
    "--filter",
    "pattern",
    default="",
    metavar="WORD",
    help="Only workflows whose name or description contains WORD.",
)
@click.pass_obj
def list_saved(host: EmbeddedHost, pattern: str) -> Report:
    """List saved workflows by name."""
    saved = host.library.saved(pattern)
    nothing = f"No saved workflow contains {pattern!r}" if pattern else "Nothing is saved"
    return Report(
        data=[item.to_dict() for item in saved],
        text=lambda: table(_HEADERS, list(map(_cells, saved))) if saved else nothing,
    )


@click.command()
@click.argument("name", shell_complete=saved_names)
@click.option("--version", type=click.IntRange(min=1), help="Show this version, not the newest.")
@click.pass_obj
def show(host: EmbeddedHost, name: str, version: int | None) -> Report:
    """Show the saved workflow NAME."""
    workflow = host.library.get(name, version)
    return Report(data=workflow, text=lambda: to_json(workflow), is_data=True)


@click.command()
@click.argument("name", shell_complete=saved_names)
@click.pass_obj
def delete(host: EmbeddedHost, name: str) -> Report:
    """Delete the saved workflow NAME with all its versions."""
    host.library.delete(name)
    return Report(data={"name": name}, text=f"{name} is deleted")


@click.command()
@click.argument("workflow", shell_complete=workflows)
@click.option(
    "--html",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write an HTML page with a drawing to this file.",
)
@click.pass_obj
def graph(host: EmbeddedHost, workflow: str, html: Path | None) -> Report:
    """Print WORKFLOW, a JSON file or the name of a saved workflow, as a Mermaid flowchart."""
    from pflow_mcp_plugin.host.rendering.mermaid import mermaid
    from pflow_mcp_plugin.host.rendering.svg_drawing import graph_page

    document = read_sound_document(host, workflow)
    edges = Graph.of(document)
    text = mermaid(document, edges)
    if html is None:
        return Report(data={"mermaid": text}, text=text, is_data=True)
    write_output(html, graph_page(workflow, document, edges).encode("utf-8", "replace"))
    return Report(data={"mermaid": text, "html": str(html)}, text=f"Wrote {html}")


@click.command()
@click.argument("workflow", shell_complete=workflows)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File to write; standard output by default.",
)
@click.pass_obj
def export_python(host: EmbeddedHost, workflow: str, output: Path | None) -> Report:
    """Write WORKFLOW, a JSON file or the name of a saved workflow, as a Python program.

    The program needs no other package than this one.
    """
    from pflow_mcp_plugin.host.rendering.python_export import python_script

    raw = find_workflow(host, workflow)
    compiled = host.runner.compile(raw, Path(workflow).stem)
    text = python_script(compiled, normalise(raw, host.registry.upgrade))
    if output is None:
        return Report(data={"python": text}, text=text, is_data=True)
    write_output(output, text.encode("utf-8", "replace"))
    return Report(data={"path": str(output)}, text=f"Wrote {output}")


def read_sound_document(host: EmbeddedHost, word: str) -> WorkflowDocument:
    """Read what `pflow workflow graph` draws: well-formed, with a valid start; node types may be unknown.

    Raises:
        PflowError: It does not exist, or is malformed.
    """
    findings = Findings()
    document = read_document(normalise(find_workflow(host, word), host.registry.upgrade), findings)
    ids = [node.id for node in document.nodes]
    if document.start and document.start not in ids:
        hint = did_you_mean(document.start, ids, f"The nodes are {listing(ids)}")
        findings.error("$.start_node", f"start_node names unknown node {document.start}", hint)
    errors = errors_in(findings.problems)
    if errors:
        raise refusal(word, errors)
    return document


def _cells(saved: SavedWorkflow) -> tuple[str, ...]:
    if saved.problem:
        return (saved.name, "", "", f"broken: {saved.problem}")
    return (saved.name, str(saved.version), saved.saved, saved.description)
