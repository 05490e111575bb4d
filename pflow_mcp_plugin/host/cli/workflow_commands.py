"""`pflow workflow save | import | list | show | delete | graph | export-python`."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

import attrs
import click

from pflow_mcp_plugin.contract import PflowError, Report
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.contract.problems import errors_in
from pflow_mcp_plugin.host.cli.command_parameters import files, saved_names, workflows
from pflow_mcp_plugin.host.cli.output import STDOUT, problem_lines, table_report, write_file
from pflow_mcp_plugin.host.cli.run_commands import find_workflow, place_of
from pflow_mcp_plugin.host.embedded_host import EmbeddedHost
from pflow_mcp_plugin.host.standard_streams import to_json
from pflow_mcp_plugin.host.workflow import normalise
from pflow_mcp_plugin.host.workflow.findings import refusal
from pflow_mcp_plugin.host.workflow.workflow_text import placed, read_text, to_yaml
from pflow_mcp_plugin.host.workflow_name import is_name, suggested_name
from pflow_mcp_plugin.storage import write_output
from pflow_mcp_plugin.terminal.human_units import age_text
from pflow_mcp_plugin.terminal.looks import Cell, Column

FIRST_WORKFLOW = """\
# A workflow: nodes, and edges that set their order. Check it with `pflow validate`.
inputs:
  name: {type: str, description: Who to greet}

nodes:
  # `pflow registry list` shows the types of nodes, `pflow registry describe TYPE` their params and outputs.
  - id: greet
    type: transform
    params:
      # An expression names values without ${...}, and has text in single quotes.
      expression: join(' ', ['Hello,', name])

  - id: say
    type: echo
    # Runs only where this is true; see docs/workflows.md for expressions, batches and retries.
    when: length(greet.result) > 0
    params:
      # In other params, ${node.output} is what an earlier node wrote.
      message: ${greet.result}

edges:
  - {from: greet, to: say}

outputs:
  greeting: ${greet.result}
"""
"""What `pflow workflow init` writes."""

_COLUMNS = (
    Column(title="NAME", whole=True),
    Column(title="VERSION", whole=True, right=True, spare=True),
    Column(title="SAVED", whole=True, spare=True),
)


@click.command()
@click.argument("file", shell_complete=files)
@click.option(
    "--name",
    shell_complete=saved_names,
    help="Name of the saved workflow: a-z, 0-9 and hyphens; by default that of the file.",
)
@click.option("--description", default="", help="One line that says what the workflow is for.")
@click.pass_obj
def save(host: EmbeddedHost, file: str, name: str | None, description: str) -> Report:
    """Save the workflow in FILE under a name; earlier versions are kept.

    Workflows that its nodes refer to by file are saved in it, as they are now.
    """
    workflow = host.runner.read_file(Path(file))
    if name is None:
        name = suggested_name(Path(file))
        if not is_name(name):
            step = "Name it: --name NAME"
            raise PflowError(f"{file} gives no name for the workflow", suggestions=(step,), kind="usage")
    saved, problems = host.save_workflow(workflow, name, description)
    lines = [f"Saved {name}, version {saved.version}; run it with: pflow run {name}"]
    return Report(data=saved.to_dict(), text="\n".join([*lines, *problem_lines(problems)]))


@click.command("import")
@click.argument("file", shell_complete=files)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File to write, as YAML if it ends in .yaml or .yml; standard output by default.",
)
@click.option(
    "--save",
    "name",
    metavar="NAME",
    shell_complete=saved_names,
    help="Save it in the library under this name instead.",
)
@click.option("--partial", is_flag=True, help="Leave out what has no equivalent, instead of refusing it.")
@click.pass_obj
def import_markdown(
    host: EmbeddedHost, file: str, output: Path | None, name: str | None, *, partial: bool
) -> Report:
    """Convert the workflow in FILE, a Markdown file of pflow-cli. Nothing is run.

    Without --partial, a workflow that cannot be converted completely, or is not valid afterwards, is refused.
    """
    from pflow_mcp_plugin.host.workflow.markdown_workflow import convert_markdown

    if output and name:
        raise PflowError("--output and --save exclude each other", kind="usage")
    if output and output.suffix.lower() == ".md":
        steps = (f"Name it {output.with_suffix('.json')}, or .yaml",)
        raise PflowError("The converted workflow is JSON or YAML", suggestions=steps, kind="usage")
    converted = convert_markdown(read_text(Path(file)), file)
    problems = [*converted.problems]
    if partial or not errors_in(problems):
        # The files that its nodes name are looked up where the workflow will be.
        place = place_of(host, str(output if output and output != STDOUT else file))
        found = host.runner.at(place).validate(converted.workflow)
        # Problems of workflows in other files keep their places there.
        problems += [it if Path(it.source).is_file() else placed(it, converted.places) for it in found]
    # As for `save`: a node type that does not exist yet is not a mistake of the workflow.
    errors = [it for it in errors_in(problems) if it.kind != "not_found"]
    if errors and not (partial and converted.workflow.get("nodes")):
        refused = refusal(file, sorted(errors, key=lambda it: it.line))
        if not partial:
            refused.suggestions = (*refused.suggestions, "To convert the rest anyway: --partial")
        raise refused
    shown = [attrs.evolve(it, severity="warning") for it in problems]
    for line in problem_lines(sorted(shown, key=lambda it: it.line)):
        click.echo(line, err=True)
    data: dict[str, JSON] = {"workflow": converted.workflow, "problems": [it.to_dict() for it in shown]}
    if name:
        saved, _ = host.save_workflow(converted.workflow, name)
        text = f"Saved {name}, version {saved.version}; run it with: pflow run {name}"
        return Report(data={**data, "path": str(saved.path)}, text=text)
    if output is None or output == STDOUT:
        return Report(data=data, text=to_json(converted.workflow), is_data=True)
    is_yaml = output.suffix.lower() in (".yaml", ".yml")
    text = to_yaml(converted.workflow) if is_yaml else f"{to_json(converted.workflow)}\n"
    return write_file(text, output, data, source=Path(file))


@click.command()
@click.argument("file", default="workflow.yaml", type=click.Path(path_type=Path))
def init(file: Path) -> Report:
    """Write a small workflow with comments to FILE, by default workflow.yaml, to begin with."""
    if file.suffix not in (".yaml", ".yml"):
        step = f"Name it {file.with_suffix('.yaml') if file.stem else 'workflow.yaml'}"
        raise PflowError("A workflow with comments is YAML", suggestions=(step,), kind="usage")
    if file.exists():
        step = "Name another file: pflow workflow init FILE.yaml"
        raise PflowError(f"{file} exists already", suggestions=(step,), kind="usage")
    write_output(file, FIRST_WORKFLOW.encode())
    return Report(
        data={"path": str(file)},
        text=f"Wrote {file}; run it with: pflow run {quote(str(file))} name=you",
    )


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
    # The reason why a file cannot be read ends with the line and column.
    description = Column(title="DESCRIPTION", prose=not any(item.problem for item in saved))
    columns = (*_COLUMNS, description)
    rows: list[tuple[Cell, ...]] = [
        (it.name, "", "", (f"broken: {it.problem}", "bad"))
        if it.problem
        else (it.name, str(it.version), age_text(it.saved), it.description)
        for it in saved
    ]
    return table_report([item.to_dict() for item in saved], columns, rows, nothing)


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
    help="Write an HTML page with a drawing to this file; - for standard output.",
)
@click.option(
    "--open", "opened", is_flag=True, help="Open the page in the browser; graph-NAME.html by default."
)
@click.pass_obj
def graph(host: EmbeddedHost, workflow: str, *, html: Path | None, opened: bool) -> Report:
    """Print WORKFLOW, a file or the name of a saved workflow, as a Mermaid flowchart."""
    from pflow_mcp_plugin.host.rendering.drawn_workflow import DrawnWorkflow
    from pflow_mcp_plugin.host.rendering.mermaid import mermaid
    from pflow_mcp_plugin.host.rendering.svg_drawing import graph_page

    drawn = DrawnWorkflow.read(find_workflow(host, workflow), workflow, host.registry.upgrade)
    text = mermaid(drawn)
    if html is None and not opened:
        return Report(data={"mermaid": text}, text=text, is_data=True)
    target = html or Path(f"graph-{Path(workflow).stem}.html")
    page = graph_page(workflow, drawn)
    data = {"mermaid": text, "html": str(target)}
    return write_file(page, target, data, source=place_of(host, workflow).file, opened=opened)


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
    """Write WORKFLOW, a file or the name of a saved workflow, as a Python program.

    The program needs no other package than this one.
    """
    from pflow_mcp_plugin.host.rendering.python_export import python_script

    raw = find_workflow(host, workflow)
    place = place_of(host, workflow)
    compiled = host.runner.at(place).compile(raw, Path(workflow).stem)
    text = python_script(compiled, normalise(raw, host.registry.upgrade))
    if output is None or output == STDOUT:
        return Report(data={"python": text}, text=text, is_data=True)
    return write_file(text, output, {}, source=place.file)
