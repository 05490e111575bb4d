"""Runs, saves or shows nodes as typed on a command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from pflow_mcp_plugin.contract import Entry, Host, Outcome, PflowError, Problem, Report
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.host.direct.chain_workflow import ChainWorkflow, NodeLink, reads_stdin
from pflow_mcp_plugin.host.direct.link_words import Chain, Link, read_chain
from pflow_mcp_plugin.host.direct.node_flags import FlagReader
from pflow_mcp_plugin.host.direct.node_help import chain_help, node_help
from pflow_mcp_plugin.host.direct.piped_stdin import can_be_read, piped_text
from pflow_mcp_plugin.host.direct.shell_redirection import refuse_redirection
from pflow_mcp_plugin.host.printable_json import to_json
from pflow_mcp_plugin.host.registry.node_registry import NodeRegistry
from pflow_mcp_plugin.host.running import WorkflowRunner


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
            return self._help(chain)
        links = self._links(chain)
        asked = self._asked(chain, links)
        if chain.is_kept:
            workflow = self._workflow(ChainWorkflow(links, asked, has_stdin=True, is_kept=True), chain)
            return self._kept(chain, workflow)
        inputs = self._stdin(links)
        builder = ChainWorkflow(links, asked, has_stdin="stdin" in inputs)
        return self._run(builder, chain, inputs)

    def _links(self, chain: Chain) -> list[NodeLink]:
        """Return the links with their entries and values.

        Raises:
            PflowError: Node types are unknown, or flags are wrong; names all of them.
        """
        problems = list(chain.problems)
        links: list[NodeLink] = []
        for place, link in enumerate(chain.links):
            entry = self.registry.find(link.node) if link.node else None
            if entry is None:
                problems += [self.registry.missing(link.node)] if link.node else []
                continue
            reader = FlagReader(entry, templates=place > 0)
            links.append(NodeLink(entry=entry, given=reader.read(link.words)))
            problems += reader.problems
        _refuse(problems)
        return links

    def _asked(self, chain: Chain, links: Sequence[NodeLink]) -> list[tuple[int, str]]:
        """Return the flags that become inputs, as the place of the link and the key of the parameter."""
        if chain.inputs and not chain.is_kept:
            step = "Add --save NAME or --print, or leave it out"
            _refuse(
                [Problem(message="--input describes a workflow for later", suggestion=step, kind="usage")]
            )
        readers = [FlagReader(link.entry, templates=False) for link in links]
        asked: list[tuple[int, str]] = []
        problems: list[Problem] = []
        for name in chain.inputs:
            found = [(place, field.key) for place, it in enumerate(readers) if (field := it.find(name))]
            typed = [(place, key) for place, key in found if key in links[place].given]
            if found:
                asked.append((typed or found)[0])
            else:
                message = f"--input {name}: no node has such a flag"
                problems.append(Problem(message=message, suggestion="Name a flag of a node", kind="usage"))
        _refuse(problems)
        return asked

    def _workflow(self, builder: ChainWorkflow, chain: Chain) -> dict[str, JSON]:
        workflow = builder.build(chain.description)
        _refuse(builder.problems)
        return workflow

    def _stdin(self, links: Sequence[NodeLink]) -> dict[str, object]:
        """Return what is piped in as the input `stdin`; nothing if nothing is, or nothing wants it."""
        wants = ChainWorkflow(links).piped_key(0) or any(reads_stdin(links))
        text = piped_text() if wants and can_be_read() else ""
        return {"stdin": text} if text else {}

    def _run(self, builder: ChainWorkflow, chain: Chain, inputs: Mapping[str, object]) -> Report:
        workflow = self._workflow(builder, chain)
        name = " then ".join(link.node for link in chain.links)
        outcome = self.runner.run_compiled(self.runner.compile(workflow, name, inputs), inputs)
        last = self.registry.get(chain.links[-1].node)
        return _outcome_report(outcome, last)

    def _kept(self, chain: Chain, workflow: dict[str, JSON]) -> Report:
        lines = []
        if chain.save:
            saved, problems = self.host.save_workflow(workflow, chain.save, chain.description)
            lines = [f"Saved {chain.save}, version {saved.version}; run it with: pflow run {chain.save}"]
            if not chain.is_shown:
                return Report(data=saved.to_dict(), text="\n".join([*lines, *map(str, problems)]))
        else:
            self.runner.compile(workflow, "chain")
        return Report(data=workflow, text=to_json(workflow))

    def _help(self, chain: Chain) -> Report:
        link: Link = chain.links[chain.help_of or 0]
        if not link.node:
            return Report(text=chain_help(self.prog_name))
        entry = self.registry.get(link.node)
        return Report(data=entry.to_dict(), text=node_help(entry, self.prog_name))


def _refuse(problems: Sequence[Problem]) -> None:
    """Raise the mistakes of a command line, if there are any, as one error."""
    if not problems:
        return
    kind = "not_found" if all(problem.kind == "not_found" for problem in problems) else "usage"
    if len(problems) == 1:
        only = problems[0]
        steps = (only.suggestion,) if only.suggestion else ()
        raise PflowError(only.message, suggestions=steps, problems=(only,), kind=kind)
    message = f"The command line has {len(problems)} mistakes"
    raise PflowError(message, problems=tuple(problems), kind=kind)


def _outcome_report(outcome: Outcome, last: Entry) -> Report:
    result = _result(outcome.outputs, last)
    return Report(
        data={"outputs": dict(outcome.outputs), "run_id": outcome.run_id, "result": result},
        text=lambda: _text(result) if outcome.success else "",
        error=outcome.error,
        beside={
            "trace_path": None if outcome.trace_path is None else str(outcome.trace_path),
            **({} if outcome.error is None else {"checkpoint": dict(outcome.checkpoint)}),
        },
        exit_code=outcome.exit_code,
    )


def _result(outputs: Mapping[str, object], last: Entry) -> object:
    key = last.interface.result_key
    return outputs[key] if key in outputs else dict(outputs)


def _text(value: object) -> str:
    return value if isinstance(value, str) else to_json(value)
