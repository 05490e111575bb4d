"""Runs, saves or shows nodes as typed on a command line."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from shlex import quote
from textwrap import wrap

import attrs

from pflow_mcp_plugin.contract import Entry, Field, Host, Library, PflowError, Problem, Report
from pflow_mcp_plugin.contract.run_requests import USUAL_OPTIONS
from pflow_mcp_plugin.host.direct.chain_workflow import ChainWorkflow, NodeLink, chain_workflow
from pflow_mcp_plugin.host.direct.link_words import (
    OPTIONS,
    Chain,
    flag_field,
    flag_of,
    flag_with,
    is_list,
    is_switch,
    mistake,
    read_chain,
    shown_flag,
)
from pflow_mcp_plugin.host.direct.node_flags import FlagReader, metavar
from pflow_mcp_plugin.host.registry.node_registry import NodeRegistry
from pflow_mcp_plugin.host.running import WorkflowRunner
from pflow_mcp_plugin.host.running.run_report import Around, outcome_report, shown_run
from pflow_mcp_plugin.host.standard_streams import piped_text, printed, to_json
from pflow_mcp_plugin.host.workflow import STILL_TO_COME, Compiled, opened
from pflow_mcp_plugin.host.workflow.coercion import alternatives
from pflow_mcp_plugin.host.workflow.findings import unwritten
from pflow_mcp_plugin.terminal.looks import one_line
from pflow_mcp_plugin.terminal.similar_names import first_meant


@attrs.frozen(eq=False, repr=False)
class DirectRun:
    """Runs chains of nodes as typed on a command line.

    `prog_name` has the words before those of the chain, for messages, and `around` coordinates warnings with
    what a run shows.
    """

    host: Host
    registry: NodeRegistry
    runner: WorkflowRunner
    prog_name: str
    around: Around

    def report(self, words: Sequence[str]) -> Report:
        """Run, save or show the chain that the words describe; all mistakes are reported before it runs."""
        note = refuse_redirection(
            words,
            self.prog_name,
            lambda name: self.registry.find(name) is not None,
            self.registry.nearest,
        )
        if note is not None:
            self.host.report(note)
        chain = read_chain(words)
        if chain.help_of is not None:
            node = chain.links[chain.help_of].node
            if not node:
                return Report(text=chain_help(self.prog_name))
            entry = self.registry.find(node)
            if entry is None:
                problem = missing(node, chain.help_of, self.registry, self.host.library)
                raise refused([problem], node if chain.help_of == 0 else "")
            return Report(data=entry.to_dict(), text=node_help(entry, self.prog_name))
        links = read_links(chain, self.registry, self.host.library)
        if chain.is_kept:
            return self._kept(chain, links)
        compiled, inputs = self._compiled(chain, links)
        names = [node.ref.id for node in compiled.every()]
        with unwritten("The command line"), shown_run(names, "brief", self.around) as (watcher, _):
            runner = self.runner.with_options(chain.options)
            outcome = runner.run_compiled(compiled, inputs, watcher=watcher)
        outputs = dict(outcome.outputs)
        # For people, the result of the last node, which scripts can use.
        result = outputs.get(links[-1].interface.result_key, outputs)
        return attrs.evolve(
            outcome_report(outcome),
            data={"outputs": outputs, "result": result, "run_id": outcome.run_id},
            text=lambda: printed(result) if outputs else "",
            is_data=True,
        )

    def _compiled(self, chain: Chain, links: Sequence[NodeLink]) -> tuple[Compiled, dict[str, object]]:
        built = chain_workflow(links, chain, has_stdin=True)
        inputs = built.workflow.get("inputs")
        spec = inputs.get("stdin") if isinstance(inputs, dict) else None
        if not (isinstance(spec, dict) and spec.get("stdin") is True):
            return self._plan(chain, built), {}
        plan = self._plan(chain, built, {"stdin": STILL_TO_COME})
        text = piped_text()
        if text:
            return plan, {"stdin": text}
        # Nothing is piped in: build the chain without it, if it can do without.
        built = chain_workflow(links, chain, has_stdin=False)
        step = "Pipe something in, or write a value in place of -"
        nothing = (f"{user} is read from standard input, but nothing is piped in" for user in built.piped)
        refuse([mistake(message, step) for message in nothing])
        return self._plan(chain, built), {}

    def _plan(
        self, chain: Chain, built: ChainWorkflow, inputs: Mapping[str, object] | None = None
    ) -> Compiled:
        refuse(built.problems)
        name = " then ".join(link.node for link in chain.links)
        with unwritten("The command line"):
            return self.runner.with_options(chain.options).compile(built.workflow, name, inputs or {})

    def _kept(self, chain: Chain, links: Sequence[NodeLink]) -> Report:
        workflow = chain_workflow(links, chain, has_stdin=True).workflow
        with unwritten("The command line"):
            compiled = self.runner.compile(workflow, " then ".join(link.node for link in chain.links))
        for warning in compiled.warnings:
            self.host.report(warning)
        if chain.save:
            saved, _ = self.host.save_workflow(workflow, chain.save, chain.description)
            if not chain.is_shown:
                told = f"Saved {chain.save}, version {saved.version}; run it with: pflow run {chain.save}"
                return Report(data=saved.to_dict(), text=told)
        return Report(data=workflow, text=to_json(workflow), is_data=True)


def read_links(chain: Chain, registry: NodeRegistry, library: Library | None) -> list[NodeLink]:
    """Read the nodes of a direct run, to run or save, from the command line; one error lists all mistakes."""
    problems = list(chain.problems)
    links: list[NodeLink] = []
    unknown = ""
    for place, link in enumerate(chain.links):
        entry = registry.find(link.node) if link.node else None
        if entry is None and link.node:
            problems.append(missing(link.node, place, registry, library))
            unknown = unknown if place else link.node
            # The first word may be meant as a command; the flags of other nodes are checked, too.
            entry = registry.find(first_meant(problems[-1].suggestion)) if place else None
        entry = opened(entry) if entry and chain.allows_extra else entry
        if entry is not None:
            # No node is before the first one to refer to: `${` is text there.
            reader = FlagReader(entry, templates=place > 0)
            given = reader.read(link.words)
            links.append(NodeLink(entry=entry, given=given, is_whole=not reader.problems))
            problems += reader.problems
    if len(links) == len(chain.links):
        links, lacking = _with_inputs(links, chain.inputs)
        problems += lacking
        for option, value in (("--input", chain.inputs), ("--description", chain.description)):
            if value and not chain.is_kept:
                step = f"Add --save NAME or --print, or leave out {option}"
                problems.append(mistake(f"{option} is for a workflow that is saved or printed", step))
        if chain.is_kept and chain.options != USUAL_OPTIONS:
            message = "--cache, --no-cache, --locked and --trust-readonly are for a run"
            problems.append(mistake(message, "Give them to pflow run"))
        problems += chain_workflow(links, chain, has_stdin=True).problems
    refuse(problems, unknown)
    return links


def missing(node: str, place: int, registry: NodeRegistry, library: Library | None) -> Problem:
    """Return the problem of a direct run with an unknown node type; the first may be meant as a workflow."""
    problem = registry.missing(node)
    is_file = False
    with suppress(OSError, ValueError):  # not a valid file name
        is_file = Path(node).is_file()
    saved = library.names() if library else ()
    if place == 0 and (is_file or node in saved):
        return attrs.evolve(problem, suggestion=f"Did you mean pflow run {quote(node)}?")
    return problem


def refuse(problems: Sequence[Problem], unknown: str = "") -> None:
    """Refuse a direct run that has problems: raise all of them as one error."""
    if problems:
        raise refused(problems, unknown)


def refused(problems: Sequence[Problem], unknown: str = "") -> PflowError:
    """Return the error that refuses to run a chain; `unknown` is a first word that is not a node type."""
    if len(problems) > 1:
        message = f"The command line has {len(problems)} mistakes"
        return PflowError(message, problems=tuple(problems), kind="usage")
    only = problems[0]
    return PflowError(
        only.message,
        details={"unknown": unknown} if unknown else {},
        suggestions=(only.suggestion,) if only.suggestion else (),
        problems=(only,),
        kind=only.kind,
    )


def _with_inputs(links: Sequence[NodeLink], names: Sequence[str]) -> tuple[list[NodeLink], list[Problem]]:
    """Return nodes as typed, to be saved or shown, with the flags that `--input` names, and problems.

    `--input title` is the flag of the first node that was given a value for it, else of the first node that
    has it; `--input NODE.title` names the node.
    """
    asked: list[dict[str, None]] = [{} for _ in links]
    problems: list[Problem] = []
    for name in names:
        node, _, flag = name.rpartition(".")
        found: list[tuple[int, str]] = []
        for place, link in enumerate(links):
            field = flag_field(link.interface, flag.removeprefix("--"))
            if field and node in ("", link.entry.node):
                found.append((place, field.key))
        given = [(place, key) for place, key in found if key in links[place].given]
        for place, key in (given or found)[:1]:
            asked[place][key] = None
        if not found:
            step = "Name a flag of a node; to set a parameter that is called input: --param input=TEXT"
            problems.append(mistake(f"--input {name}: no node has this flag", step))
    pairs = zip(links, asked, strict=True)
    return [attrs.evolve(link, asked=tuple(keys)) for link, keys in pairs], problems


_STDOUT = 1


def refuse_redirection(
    words: Sequence[str],
    program: str,
    is_node: Callable[[str], bool],
    nearest: Callable[[str], Sequence[str]],
) -> Problem | None:
    """Refuse to run nodes as typed if the shell took `>>` for itself and a node's name as that of a file.

    For a file that the shell just created, the node `nearest` to its name counts, too; without one, a note on
    it is returned, unless its name has a suffix.
    """
    file = _appended_file()
    if file is None:
        return None
    is_new = file.is_file() and not file.stat().st_size
    node = "" if file.name == "then" else file.name
    if node and not is_node(node):
        if not is_new or file.suffix:
            return None
        node = next(iter(nearest(node)), "")
        if not node:
            message = f"The output is appended to the file {file}: `>>` is the shell's own"
            step = "To pass it on to a node, write `then` instead of it"
            return Problem(message=message, suggestion=step, severity="warning", kind="usage")
    first = " ".join(map(quote, [program, *takewhile(lambda word: not word.startswith("-"), words)]))
    following = f" {node}" if node else ""
    steps = (
        f"Write: {first} ... then{following} ..., or quote it: '>>'",
        *((f"Remove the file that the shell created: rm {quote(str(file))}",) if is_new else ()),
        f"If you meant the file: ... | cat >> {quote(str(file))}",
    )
    message = f"The shell took `>>` for itself: it appends the output to the file {file}"
    raise PflowError(message, details={"file": str(file)}, suggestions=steps, kind="usage")


def _appended_file() -> Path | None:
    try:
        import fcntl
    except ImportError:  # not on Windows
        return None
    try:
        is_appended = fcntl.fcntl(_STDOUT, fcntl.F_GETFL) & os.O_APPEND
        if not is_appended or not stat.S_ISREG(os.fstat(_STDOUT).st_mode):
            return None
        if sys.platform == "linux":
            return Path(f"/proc/self/fd/{_STDOUT}").readlink()
        if sys.platform == "darwin":
            found = fcntl.fcntl(_STDOUT, fcntl.F_GETPATH, bytes(1024))
            return Path(os.fsdecode(found.partition(b"\0")[0]))
    except OSError:  # it is closed, or the system cannot tell
        pass
    return None


_WIDTH = 100
_COLUMN = 30
"""The widest form of a flag that has its description beside it."""
_OPTIONS = (
    ("--save NAME", "Save the nodes as a workflow and run nothing; pflow run NAME runs it"),
    ("--print", "Print the nodes as a workflow and run nothing"),
    ("--input FLAG", "Make a flag an input of that workflow; may be repeated"),
    ("--description TEXT", "What that workflow is for"),
    ("--param NAME=VALUE", "Set a parameter by its exact name; @ and - have no special meaning in VALUE"),
    ("--params JSON|@FILE|-", "Set parameters by their exact names, from a JSON object"),
    ("--allow-extra", "Let nodes take undeclared parameters"),
    ("--cache[=TTL]", "Reuse results of read-only nodes, of the last hour by default; or --no-cache"),
    ("--locked", "Refuse nodes that differ from the lock file"),
    ("--trust-readonly", "Trust nodes that claim to be read-only"),
    ("--json", "Print one JSON object"),
    ("-h, --help", "Show the flags of a node"),
)
_VALUES = """\
The value of --FLAG is the next word; --FLAG=VALUE and FLAG=VALUE work too. Write lists and objects as JSON.
@FILE is the content of a file, @@ a leading @, and - the piped input.
From the second node on, ${key} in a value is an output of an earlier node."""
_SAMPLES = {"str": "'some text'", "int": "10", "float": "0.5", "list": "'[...]'", "dict": "'{...}'"}


def chain_help(prog_name: str) -> str:
    """Return the help of a direct run: how to type nodes on a command line, and the options."""
    usage = f"Usage: {prog_name} NODE [--FLAG VALUE]... [then NODE [--FLAG VALUE]...]..."
    about = "Run nodes without a workflow file; each takes the result of the one before it."
    lines = [usage, "", f"  {about}", "", *(f"  {line}" for line in _VALUES.splitlines())]
    return "\n".join([*lines, "", "Options:", *_table(_OPTIONS), "", "See: pflow registry list"])


def node_help(entry: Entry, prog_name: str) -> str:
    """Return the help of a direct run, `pflow NODE --help`: usage, flags, what is piped in, and outputs."""
    interface = entry.interface
    needed = [field for field in interface.params if field.needs_value]
    call = f"{prog_name} {entry.node}"
    lines = [" ".join([f"Usage: {call}", *map(_form, needed), "[--FLAG VALUE]... [then NODE ...]"]), ""]
    lines += [f"  {line}" for text in entry.description.splitlines() for line in wrap(text, _WIDTH)]
    lines += ["", "Flags:", *_table((_form(field), _about(field)) for field in interface.params)]
    if interface.open:
        lines += _table([("--OTHER VALUE", "Any other parameter")])
    piped = _piped(entry)
    lines += ["", piped] if piped else []
    marks = {interface.result_key: ", the result"}
    outputs = [(it.key, f"({it.type}{marks.get(it.key, '')}) {it.description}") for it in interface.outputs]
    lines += ["", "Outputs:", *_table(outputs)]
    lines += ["", "Options of pflow:", *_table(_OPTIONS)]
    example = " ".join([call, *(flag_with(field, _sample(field)) for field in needed)])
    return "\n".join(map(one_line, [*lines, "", f"Example: {example}"]))


def _table(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    known = [(one_line(form), about) for form, about in rows] or [("none", "")]
    width = max((len(form) for form, _ in known if len(form) <= _COLUMN), default=_COLUMN)
    for form, about in known:
        first, *rest = wrap(about, max(_WIDTH - width - 4, 40)) or [""]
        if len(form) > width:
            yield f"  {form}"
            rest = [first, *rest] if first else rest
        else:
            yield f"  {form:<{width}}  {first}".rstrip()
        yield from (f"  {'':<{width}}  {line}" for line in rest)


def _form(field: Field) -> str:
    if is_switch(field) and flag_of(field) not in OPTIONS:
        return f"{flag_of(field)}, --no-{flag_of(field)[2:]}"
    return flag_with(field, metavar(field))


def _about(field: Field) -> str:
    notes = ["required"] if field.needs_value else []
    notes += ["may be repeated"] if is_list(field) else []
    if isinstance(field.schema, Mapping) and field.has_default:
        notes.append(f"default {json.dumps(field.schema['default'], ensure_ascii=False)}")
    return f"{field.description} [{', '.join(notes)}]".strip() if notes else field.description


def _piped(entry: Entry) -> str:
    interface = entry.interface
    field = next((it for it in interface.params if it.key == interface.piped_key(())), None)
    if field is not None:
        return f"Piped input, or the result of the node before, becomes {shown_flag(field)}."
    texts = [it for it in interface.params if it.required and not {"str", "any"}.isdisjoint(it.types)]
    if len(texts) > 1:
        return "Piped input, or the result of the node before, becomes the required text that no flag sets."
    return ""


def _sample(field: Field) -> str:
    first = next(iter(field.choices), None)
    if isinstance(first, str) and first.isalnum():
        return first
    return next((_SAMPLES[kind] for kind in alternatives(field.type) if kind in _SAMPLES), "'some text'")
