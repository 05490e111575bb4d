"""Runs, saves or shows nodes as typed on a command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from pflow_mcp_plugin.contract import Entry, Host, Outcome, Problem, Report
from pflow_mcp_plugin.host.direct.chain_links import missing, read_links, refuse, refused
from pflow_mcp_plugin.host.direct.chain_workflow import ChainWorkflow, NodeLink, chain_workflow
from pflow_mcp_plugin.host.direct.link_words import Chain, read_chain
from pflow_mcp_plugin.host.direct.shell_redirection import refuse_redirection
from pflow_mcp_plugin.host.printable_json import to_json
from pflow_mcp_plugin.host.registry.node_registry import NodeRegistry
from pflow_mcp_plugin.host.running import WorkflowRunner
from pflow_mcp_plugin.host.running.run_report import Around, outcome_report, printed, shown_run
from pflow_mcp_plugin.host.standard_streams import piped_text
from pflow_mcp_plugin.host.workflow import STILL_TO_COME, Compiled
from pflow_mcp_plugin.host.workflow.findings import unwritten


@attrs.frozen(eq=False, repr=False)
class DirectRun:
    """Runs chains of nodes as typed on a command line.

    Attributes:
        host: The host, which saves workflows.
        registry: Its registry.
        runner: Its runner.
        prog_name: The words before those of the chain, for messages.
        around: Coordinates warnings with what a run shows.
    """

    host: Host
    registry: NodeRegistry
    runner: WorkflowRunner
    prog_name: str
    around: Around

    def report(self, words: Sequence[str]) -> Report:
        """Run, save or show the chain that the words describe.

        Raises:
            PflowError: Kind `usage`, `not_found` or `validation`, with every mistake; nothing has run.
        """
        refuse_redirection(words, self.prog_name, lambda name: self.registry.find(name) is not None)
        chain = read_chain(words)
        if chain.help_of is not None:
            return self._help(chain, chain.help_of)
        links = read_links(chain, self.registry, self.host.library)
        if chain.is_kept:
            return self._kept(chain, links)
        compiled, inputs = self._compiled(chain, links)
        names = [node.ref.id for node in compiled.every()]
        with shown_run(names, "brief", self.around) as (watcher, _):
            outcome = self.runner.run_compiled(compiled, inputs, watcher=watcher)
        return _report(outcome, links[-1].entry)

    def _compiled(self, chain: Chain, links: Sequence[NodeLink]) -> tuple[Compiled, dict[str, object]]:
        """Return the plan of the run and its inputs; what is piped in is read only if something wants it.

        Raises:
            PflowError: A node lacks something. That is found before anything is read.
        """
        built = chain_workflow(links, has_stdin=True, is_kept=False, allows_extra=chain.allows_extra)
        if not _takes_stdin(built):
            return self._plan(chain, built), {}
        plan = self._plan(chain, built, {"stdin": STILL_TO_COME})
        text = piped_text()
        if text:
            return plan, {"stdin": text}
        built = chain_workflow(links, has_stdin=False, is_kept=False, allows_extra=chain.allows_extra)
        step = "Pipe something in, or write a value in place of -"
        nothing = (f"{user} is read from standard input, but nothing is piped in" for user in built.piped)
        refuse([Problem(message=message, suggestion=step, kind="usage") for message in nothing])
        return self._plan(chain, built), {}

    def _plan(
        self, chain: Chain, built: ChainWorkflow, inputs: Mapping[str, object] | None = None
    ) -> Compiled:
        refuse(built.problems)
        name = " then ".join(link.node for link in chain.links)
        with unwritten("The command line"):
            return self.runner.compile(built.workflow, name, inputs or {})

    def _kept(self, chain: Chain, links: Sequence[NodeLink]) -> Report:
        """Save the chain as a workflow, or show it."""
        built = chain_workflow(
            links,
            has_stdin=True,
            is_kept=True,
            description=chain.description,
            allows_extra=chain.allows_extra,
        )
        workflow = built.workflow
        with unwritten("The command line"):
            compiled = self.runner.compile(workflow, " then ".join(link.node for link in chain.links))
        for warning in compiled.warnings:
            self.host.report(warning)
        if not chain.save:
            return Report(data=workflow, text=to_json(workflow), is_data=True)
        saved, _ = self.host.save_workflow(workflow, chain.save, chain.description)
        told = f"Saved {chain.save}, version {saved.version}; run it with: pflow run {chain.save}"
        return Report(
            data=workflow if chain.is_shown else saved.to_dict(),
            text=to_json(workflow) if chain.is_shown else told,
            is_data=chain.is_shown,
        )

    def _help(self, chain: Chain, place: int) -> Report:
        from pflow_mcp_plugin.host.direct.node_help import chain_help, node_help

        node = chain.links[place].node
        if not node:
            return Report(text=chain_help(self.prog_name))
        entry = self.registry.find(node)
        if entry is None:
            raise refused(
                [missing(node, place, self.registry, self.host.library)], node if place == 0 else ""
            )
        return Report(data=entry.to_dict(), text=node_help(entry, self.prog_name))


def _takes_stdin(built: ChainWorkflow) -> bool:
    inputs = built.workflow.get("inputs")
    spec = inputs.get("stdin") if isinstance(inputs, dict) else None
    return isinstance(spec, dict) and spec.get("stdin") is True


def _report(outcome: Outcome, last: Entry) -> Report:
    """Return the report of a run: for people the result of the last node, which scripts can use."""
    key = last.interface.result_key
    outputs = dict(outcome.outputs)
    result = outputs.get(key, outputs)
    return attrs.evolve(
        outcome_report(outcome),
        data={"outputs": outputs, "result": result, "run_id": outcome.run_id},
        text=lambda: printed(result) if outputs else "",
        is_data=True,
    )
