"""The links of a chain, with the node types they name and the values of their flags."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from shlex import quote

import attrs

from pflow_mcp_plugin.contract import Library, PflowError, Problem
from pflow_mcp_plugin.host.direct.chain_workflow import NodeLink, chain_workflow
from pflow_mcp_plugin.host.direct.link_words import Chain
from pflow_mcp_plugin.host.direct.node_flags import FlagReader
from pflow_mcp_plugin.host.registry.node_registry import NodeRegistry
from pflow_mcp_plugin.host.workflow import opened


def read_links(chain: Chain, registry: NodeRegistry, library: Library | None) -> list[NodeLink]:
    """Read the links of a chain.

    Args:
        chain: The chain.
        registry: Knows the node types.
        library: Knows the workflows that may be meant.

    Raises:
        PflowError: Something is wrong with the line: nodes are unknown, flags are wrong, or a node lacks
            something; names all of it.
    """
    problems = list(chain.problems)
    readers: list[FlagReader] = []
    links: list[NodeLink] = []
    unknown = ""
    for place, link in enumerate(chain.links):
        entry = registry.find(link.node) if link.node else None
        entry = opened(entry) if entry and chain.allows_extra else entry
        if entry is not None:
            readers.append(FlagReader(entry, templates=place > 0))
            given = readers[-1].read(link.words)
            links.append(NodeLink(entry=entry, given=given, is_whole=not readers[-1].problems))
            problems += readers[-1].problems
        elif link.node:
            problems.append(missing(link.node, place, registry, library))
            unknown = unknown if place else link.node
    if len(links) == len(chain.links):
        asked = _Asked(links, readers)
        links = asked.links(chain.inputs)
        built = chain_workflow(links, has_stdin=True, is_kept=chain.is_kept)
        problems += [*asked.problems, *_pointless(chain), *built.problems]
    refuse(problems, unknown)
    return links


def missing(node: str, place: int, registry: NodeRegistry, library: Library | None) -> Problem:
    """Return the problem of a link whose node type is unknown; the first may be meant for a workflow."""
    problem = registry.missing(node)
    is_file = False
    with suppress(OSError, ValueError):  # no name for a file
        is_file = Path(node).is_file()
    saved = library.names() if library else ()
    if place == 0 and (is_file or node in saved):
        return attrs.evolve(problem, suggestion=f"Did you mean pflow run {quote(node)}?")
    return problem


def refuse(problems: Sequence[Problem], unknown: str = "") -> None:
    """Raise the mistakes of a chain as one error, if there are any; see `refused`."""
    if problems:
        raise refused(problems, unknown)


def refused(problems: Sequence[Problem], unknown: str = "") -> PflowError:
    """Return the mistakes of a chain as one error.

    Args:
        problems: The mistakes.
        unknown: The first word, if it is no node type; it may be meant for something else.
    """
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


class _Asked:
    """Finds the flags that become inputs of the workflow of a chain.

    `--input title` is the flag of the first node that was given a value for it, else of the first that
    has it; `--input NODE.title` names the node.
    """

    def __init__(self, links: Sequence[NodeLink], readers: Sequence[FlagReader]) -> None:
        self._links = links
        self._readers = readers
        self.problems: list[Problem] = []

    def links(self, names: Sequence[str]) -> list[NodeLink]:
        """Return the links with the keys of those flags."""
        asked: list[dict[str, None]] = [{} for _ in self._links]
        for name in names:
            found = list(self._find(name))
            typed = [(place, key) for place, key in found if key in self._links[place].given]
            for place, key in (typed or found)[:1]:
                asked[place][key] = None
            if not found:
                step = "Name a flag of a node; to set a parameter that is called input: --param input=TEXT"
                message = f"--input {name}: no node has this flag"
                self.problems.append(Problem(message=message, suggestion=step, kind="usage"))
        pairs = zip(self._links, asked, strict=True)
        return [attrs.evolve(link, asked=tuple(keys)) for link, keys in pairs]

    def _find(self, name: str) -> Iterator[tuple[int, str]]:
        node, _, flag = name.rpartition(".")
        for place, (link, reader) in enumerate(zip(self._links, self._readers, strict=True)):
            field = reader.names.find(flag.removeprefix("--"))
            if field and node in ("", link.entry.node):
                yield place, field.key


def _pointless(chain: Chain) -> Iterator[Problem]:
    """Yield a problem for each option that describes a workflow, of a chain that becomes none."""
    for option, value in (("--input", chain.inputs), ("--description", chain.description)):
        if value and not chain.is_kept:
            message = f"{option} is for a workflow that is saved or printed"
            step = f"Add --save NAME or --print, or leave out {option}"
            yield Problem(message=message, suggestion=step, kind="usage")
