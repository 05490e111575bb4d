"""`pflow run` and `pflow validate`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click
from click.shell_completion import CompletionItem

from pflow_mcp_plugin.contract import PflowError, Problem, Report
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.host.cli.command_line_inputs import parse_inputs, piped_inputs
from pflow_mcp_plugin.host.cli.name_completion import workflows
from pflow_mcp_plugin.host.cli.option_values import WithLoneOption, seconds
from pflow_mcp_plugin.host.cli.output import counted, problem_lines
from pflow_mcp_plugin.host.embedded_host import EmbeddedHost
from pflow_mcp_plugin.host.running.outcome_report import outcome_report
from pflow_mcp_plugin.host.workflow import Compiled, load_workflow
from pflow_mcp_plugin.host.workflow.repetition import USUAL_TTL
from pflow_mcp_plugin.host.workflow_library import is_name
from pflow_mcp_plugin.storage import NotRegular, read_regular, read_special

if TYPE_CHECKING:  # loaded only when a lock is checked
    from pflow_mcp_plugin.host.workflow.locked_workflow import LockPlace

_DESCRIPTOR = re.compile(r"/dev/stdin|/(dev|proc/self)/fd/\d+")
"""What the user has opened for pflow: `pflow run /dev/stdin`, `pflow run <(command)`."""


def _input_names(
    context: click.Context, _parameter: click.Parameter, _incomplete: str
) -> list[CompletionItem]:
    """Return the inputs of the workflow that `pflow run` names, each as `NAME=`."""
    inputs = find_workflow(context.obj, context.params["workflow"]).get("inputs")
    given = {text.partition("=")[0] for text in context.params.get("inputs") or ()}
    names = inputs if isinstance(inputs, dict) else {}
    return [CompletionItem(f"{name}=", type="stem") for name in names if name not in given]


@click.command(cls=WithLoneOption, lone={"--cache": f"{USUAL_TTL:g}"})
@click.argument("workflow", shell_complete=workflows)
@click.argument("inputs", nargs=-1, metavar="[NAME=VALUE]...", shell_complete=_input_names)
@click.option(
    "--trace/--no-trace", default=True, help="Whether to write a trace; the default is to write one."
)
@click.option("--locked", is_flag=True, help="Refuse nodes that differ from the lock file.")
@click.option(
    "--cache",
    callback=seconds,
    metavar="[=TTL]",
    help="For nodes that only read, use results of earlier runs younger than TTL, such as 90s, 15m or 2d; "
    "by default an hour.",
)
@click.option("--no-cache", is_flag=True, help="Use no results of earlier runs, and keep none.")
@click.option("--trust-readonly", is_flag=True, help="For this run, believe nodes that claim to only read.")
@click.pass_obj
def run(
    host: EmbeddedHost,
    /,
    workflow: str,
    inputs: tuple[str, ...],
    *,
    trace: bool,
    locked: bool,
    **options: Any,
) -> Report:
    """Run WORKFLOW, a JSON file or the name of a saved workflow, with inputs given as NAME=VALUE."""
    results = ResultOptions(**options)
    runner = host.runner.trusting() if results.trust_readonly else host.runner
    values: dict[str, object] = dict(parse_inputs(inputs))
    document = find_workflow(host, workflow)
    lock = _lock_place(host, workflow) if locked else None
    compiling = partial(runner.compile, document, workflow, lock=lock)
    values |= piped_inputs(document, values, compiling)
    compiled = results.applied(host, compiling(values))
    return outcome_report(runner.run_compiled(compiled, values, trace=trace))


@attrs.frozen(kw_only=True)
class ResultOptions:
    """The options of `pflow run` about the results of earlier runs.

    Attributes:
        cache: Seconds for which results are used; None if only nodes that say so use any.
        no_cache: Whether results are neither used nor kept.
        trust_readonly: Whether nodes that claim to only read are believed.
    """

    cache: float | None
    no_cache: bool
    trust_readonly: bool

    def applied(self, host: EmbeddedHost, compiled: Compiled) -> Compiled:
        """Return the plan of the run with these options.

        Raises:
            PflowError: Two of them exclude each other.
        """
        if self.cache is None:
            return compiled.uncached() if self.no_cache else compiled
        if self.no_cache:
            raise PflowError("--cache and --no-cache exclude each other", kind="usage")
        cached = compiled.cached(self.cache)
        if all(node.ttl is None for node in cached.nodes):
            claims = any(node.ref.entry.claimed_purity for node in cached.nodes)
            step = "If you believe the nodes that claim to only read: --trust-readonly" if claims else ""
            message = "No node of this workflow can be cached: none is known to only read"
            host.report(Problem(message=message, suggestion=step, severity="warning", kind="usage"))
        return cached


@click.command()
@click.argument("workflow", shell_complete=workflows)
@click.option("--locked", is_flag=True, help="Also compare the nodes with the lock file.")
@click.option(
    "--flows",
    is_flag=True,
    help="Also list how data from untrusted sources reaches nodes that are destructive or send data.",
)
@click.pass_obj
def validate(host: EmbeddedHost, workflow: str, *, locked: bool, flows: bool) -> Report:
    """Validate WORKFLOW, a JSON file or a saved name, before `pflow run`: list all problems, run nothing."""
    document = find_workflow(host, workflow)
    lock = _lock_place(host, workflow) if locked else None
    if not flows:
        return findings_report(workflow, host.runner.validate(document, lock))
    problems, found = host.runner.validate_flows(document, lock)
    return findings_report(workflow, problems, flows=[flow.to_dict() for flow in found.flows])


def _lock_place(host: EmbeddedHost, word: str) -> LockPlace:
    """Return where the lock file of a workflow may be: beside its file, if it is one."""
    from pflow_mcp_plugin.host.workflow.locked_workflow import LockPlace

    is_saved = is_name(word) and word in host.library.names()
    return LockPlace(folder=None if is_saved or _DESCRIPTOR.fullmatch(word) else Path(word).parent)


def find_workflow(host: EmbeddedHost, word: str) -> dict[str, JSON]:
    """Look up the argument of `pflow run` or another command: the name of a saved workflow, or a file.

    A saved name wins over a file of the same name without suffix; `./NAME` is always the file.

    Raises:
        PflowError: It is neither, or cannot be read.
    """
    if is_name(word) and word in host.library.names():
        return host.library.get(word)
    if is_name(word) and not Path(word).is_file():
        from difflib import get_close_matches

        close = get_close_matches(word, host.library.names(), 1)
        hints = tuple(f"Did you mean {name}?" for name in close) or _similar_files(Path(f"{word}.json"))
        message = f"{word} is neither a saved workflow nor a file"
        raise PflowError(message, suggestions=hints or ("See: pflow workflow list",), kind="not_found")
    return read_workflow(Path(word))


def read_workflow(path: Path) -> dict[str, JSON]:
    """Read the file argument of `pflow run`: a regular file, or a descriptor such as `/dev/stdin`.

    Raises:
        PflowError: The file does not exist, cannot be read, or is not JSON.
    """
    try:
        content = read_special(path) if _DESCRIPTOR.fullmatch(str(path)) else read_regular(path)
        text = content.decode()
    except FileNotFoundError as error:
        raise PflowError(
            f"No such file: {path}", suggestions=_similar_files(path), kind="not_found"
        ) from error
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}"
        steps = (f"Pass it as standard input: /dev/stdin < {path}",) if isinstance(error, NotRegular) else ()
        raise PflowError(message, suggestions=steps, kind="not_found") from error
    except UnicodeDecodeError as error:
        message = f"{path} is not UTF-8 (byte {error.start})"
        raise PflowError(message, suggestions=("Save it as UTF-8",), kind="validation") from error
    return load_workflow(text, str(path))


def findings_report(name: str, problems: Sequence[Problem], **listed: object) -> Report:
    """Return the report of `pflow validate` on the problems found.

    Args:
        name: The workflow.
        problems: What was found.
        listed: What else is shown with `--json`, whether or not the workflow is valid.
    """
    errors = tuple(problem for problem in problems if problem.severity == "error")
    warnings = tuple(problem for problem in problems if problem.severity == "warning")
    if not errors:
        data = {"valid": True, "problems": [problem.to_dict() for problem in problems], **listed}
        return Report(data=data, text="\n".join([f"{name} is valid", *problem_lines(warnings)]))
    message = f"{name} has {counted(problems)}"
    return Report(error=PflowError(message, details=listed, problems=(*errors, *warnings), kind="validation"))


def _similar_files(path: Path) -> tuple[str, ...]:
    from difflib import get_close_matches

    names = [item.name for item in path.parent.glob("*.json")] if path.parent.is_dir() else []
    return tuple(f"Did you mean {path.parent / name}?" for name in get_close_matches(path.name, names, 1))
