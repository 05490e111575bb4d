"""Runs, saves or shows nodes as typed on a command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from shlex import quote

import attrs

from pflow_mcp_plugin.contract import Entry, Host, Outcome, PflowError, Problem, Report
from pflow_mcp_plugin.host.direct.chain_workflow import ChainWorkflow, NodeLink, chain_workflow
from pflow_mcp_plugin.host.direct.link_words import Chain, read_chain
from pflow_mcp_plugin.host.direct.node_flags import FlagReader
from pflow_mcp_plugin.host.direct.shell_redirection import refuse_redirection
from pflow_mcp_plugin.host.printable_json import to_json
from pflow_mcp_plugin.host.registry.node_registry import NodeRegistry
from pflow_mcp_plugin.host.running import WorkflowRunner
from pflow_mcp_plugin.host.standard_input import piped_text
from pflow_mcp_plugin.host.workflow import STILL_TO_COME, Compiled


@attrs.frozen(eq=False, repr=False)
class DirectRun:
    """Runs chains of nodes as typed on a command line.

    Attributes:
        host: The host, which saves workflows.
        registry: Its registry.
        runner: Its runner.
        prog_name: The words before those of the chain, for messages.
    """

    host: Host
    registry: NodeRegistry
    runner: WorkflowRunner
    prog_name: str

    def report(self, words: Sequence[str]) -> Report:
        """Run, save or show the chain that the words describe.

        Raises:
            PflowError: Kind `usage`, `not_found` or `validation`, with every mistake; nothing has run.
        """
        refuse_redirection(words, self.prog_name, lambda name: self.registry.find(name) is not None)
        chain = read_chain(words)
        if chain.help_of is not None:
            return self._help(chain, chain.help_of)
        links = self._links(chain)
        if chain.is_kept:
            return self._kept(chain, links)
        compiled, inputs = self._compiled(chain, links)
        return _outcome_report(self.runner.run_compiled(compiled, inputs), links[-1].entry)

    def _links(self, chain: Chain) -> list[NodeLink]:
        """Return the links with their entries and values.

        Raises:
            PflowError: Node types are unknown, or flags are wrong; names all of them.
        """
        problems = list(chain.problems)
        unknown: list[str] = []
        read: list[tuple[NodeLink, FlagReader]] = []
        for place, link in enumerate(chain.links):
            entry = self.registry.find(link.node) if link.node else None
            if entry is not None:
                reader = FlagReader(entry, templates=place > 0)
                read.append((NodeLink(entry=entry, given=reader.read(link.words)), reader))
                problems += reader.problems
            elif link.node:
                problems.append(self._missing(link.node, is_first=place == 0))
                unknown += [link.node] if place == 0 else []
        _refuse(problems, "".join(unknown))
        return _with_inputs(chain, read)

    def _missing(self, node: str, *, is_first: bool) -> Problem:
        """Return the problem of an unknown node type; the first may be meant for a workflow."""
        problem = self.registry.missing(node)
        is_file = False
        with suppress(OSError):  # a name that is too long for a file
            is_file = Path(node).is_file()
        saved = self.host.library.names() if self.host.library else ()
        if is_first and (is_file or node in saved):
            return attrs.evolve(problem, suggestion=f"Did you mean pflow run {quote(node)}?")
        return problem

    def _compiled(self, chain: Chain, links: Sequence[NodeLink]) -> tuple[Compiled, dict[str, object]]:
        """Return the plan of the run and its inputs; what is piped in is read only if something wants it.

        Raises:
            PflowError: A node lacks something. That is found before anything is read.
        """
        built = chain_workflow(links, has_stdin=True, is_kept=False)
        if not _takes_stdin(built):
            return self._plan(chain, built), {}
        plan = self._plan(chain, built, {"stdin": STILL_TO_COME})
        text = piped_text()
        if text:
            return plan, {"stdin": text}
        built = chain_workflow(links, has_stdin=False, is_kept=False)
        step = "Pipe something in, or write the value"
        nothing = (f"{user} is what is piped in, but nothing is" for user in built.piped)
        _refuse([Problem(message=message, suggestion=step, kind="usage") for message in nothing])
        return self._plan(chain, built), {}

    def _plan(
        self, chain: Chain, built: ChainWorkflow, inputs: Mapping[str, object] | None = None
    ) -> Compiled:
        _refuse(built.problems)
        name = " then ".join(link.node for link in chain.links)
        return self.runner.compile(built.workflow, name, inputs or {})

    def _kept(self, chain: Chain, links: Sequence[NodeLink]) -> Report:
        """Save the chain as a workflow, or show it."""
        built = chain_workflow(links, has_stdin=True, is_kept=True, description=chain.description)
        _refuse(built.problems)
        workflow = built.workflow
        compiled = self.runner.compile(workflow, " then ".join(link.node for link in chain.links))
        for warning in compiled.warnings:
            self.host.report(warning)
        if not chain.save:
            return Report(data=workflow, text=to_json(workflow))
        saved, _ = self.host.save_workflow(workflow, chain.save, chain.description)
        told = f"Saved {chain.save}, version {saved.version}; run it with: pflow run {chain.save}"
        return Report(
            data=workflow if chain.is_shown else saved.to_dict(),
            text=to_json(workflow) if chain.is_shown else told,
        )

    def _help(self, chain: Chain, place: int) -> Report:
        from pflow_mcp_plugin.host.direct.node_help import chain_help, node_help

        node = chain.links[place].node
        if not node:
            return Report(text=chain_help(self.prog_name))
        if self.registry.find(node) is None:
            _refuse([self.registry.missing(node)], node if place == 0 else "")
        entry = self.registry.get(node)
        return Report(data=entry.to_dict(), text=node_help(entry, self.prog_name))


def _with_inputs(chain: Chain, read: Sequence[tuple[NodeLink, FlagReader]]) -> list[NodeLink]:
    """Return the links with the flags that become inputs of the workflow.

    `--input title` is the flag of the first node that was given a value for it, else of the first that
    has it; `--input NODE.title` names the node.

    Raises:
        PflowError: No node has such a flag, or the chain is not kept.
    """
    problems: list[Problem] = []
    asked: list[list[str]] = [[] for _ in read]
    for name in chain.inputs:
        node, _, flag = name.rpartition(".")
        found = [
            (place, field.key)
            for place, (link, reader) in enumerate(read)
            if node in ("", link.entry.node) and (field := reader.names.find(flag.removeprefix("--")))
        ]
        typed = [(place, key) for place, key in found if key in read[place][0].given]
        for place, key in (typed or found)[:1]:
            if key not in asked[place]:
                asked[place].append(key)
        if not found:
            step = "Name a flag of a node; for the parameter `input` of a node write --param input=TEXT"
            problems.append(
                Problem(message=f"--input {name}: no node has such a flag", suggestion=step, kind="usage")
            )
    for option, value in (("--input", chain.inputs), ("--description", chain.description)):
        if value and not chain.is_kept and not problems:
            message = f"{option} is for a workflow that is saved or printed"
            step = f"Add --save NAME or --print, or leave out {option}"
            problems.append(Problem(message=message, suggestion=step, kind="usage"))
    _refuse(problems)
    return [attrs.evolve(link, asked=tuple(keys)) for (link, _), keys in zip(read, asked, strict=True)]


def _refuse(problems: Sequence[Problem], unknown: str = "") -> None:
    """Raise the mistakes of a command line, if there are any, as one error.

    Args:
        problems: The mistakes.
        unknown: The first word, if it is no node type; it may be meant for something else.
    """
    if len(problems) > 1:
        message = f"The command line has {len(problems)} mistakes"
        raise PflowError(message, problems=tuple(problems), kind="usage")
    for only in problems:
        raise PflowError(
            only.message,
            details={"unknown": unknown} if unknown else {},
            suggestions=(only.suggestion,) if only.suggestion else (),
            problems=(only,),
            kind=only.kind,
        )


def _takes_stdin(built: ChainWorkflow) -> bool:
    inputs = built.workflow.get("inputs")
    spec = inputs.get("stdin") if isinstance(inputs, dict) else None
    return isinstance(spec, dict) and spec.get("stdin") is True


def _outcome_report(outcome: Outcome, last: Entry) -> Report:
    """Return the report of a run: for people the result of the last node, which scripts can use."""
    key = last.interface.result_key
    result = outcome.outputs[key] if key in outcome.outputs else dict(outcome.outputs)
    return Report(
        data={"outputs": dict(outcome.outputs), "result": result, "run_id": outcome.run_id},
        text=lambda: _text(result) if outcome.success else "",
        error=outcome.error,
        beside={
            "trace_path": None if outcome.trace_path is None else str(outcome.trace_path),
            **({} if outcome.error is None else {"checkpoint": dict(outcome.checkpoint)}),
        },
        exit_code=outcome.exit_code,
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else to_json(value)
