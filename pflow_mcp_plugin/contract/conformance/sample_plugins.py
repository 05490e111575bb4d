"""The sample plugins that the conformance checks load into a host, and their parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from types import SimpleNamespace
from typing import Any

from pflow_mcp_plugin.contract.entries import Entry, Field, Interface, NodeUse
from pflow_mcp_plugin.contract.hookspecs import hookimpl
from pflow_mcp_plugin.contract.hosts import Host, Report
from pflow_mcp_plugin.contract.problems import PflowError, Problem
from pflow_mcp_plugin.contract.registries import NodeSource
from pflow_mcp_plugin.contract.runs import Run

SECRET = "sw0rdfish-sw0rdfish"  # noqa: S105 - not a real secret
"""The secret that the sample node tells a run to redact."""


class Recite:
    """A sample plugin's node, which records its params and behaves as they say."""

    def set_params(self, params: Mapping[str, Any]) -> None:
        """Keep the params of the sample plugin's node."""
        self._params = dict(params)

    def run(self, shared: MutableMapping[str, Any]) -> str | None:
        """Write `said`, the sample node's output; fail, or read the store, if a param says so."""
        run: Run = shared["__run__"]
        run.resources.setdefault("recited", []).append(self._params)
        run.annotate(self._params["__node_id__"], {"recited": True})
        wanted = self._params.get("fail")
        if wanted == "raise":
            run.add_secrets([SECRET])
            raise PflowError(f"no voice for {SECRET}", details={"key": SECRET}, ran="ran", retryable=True)
        if wanted == "action":
            shared["error"] = "hoarse"
            return "error"
        shared["said"] = self._params.get("text", shared.get("text"))
        shared["error"] = None
        return None


class Poems(NodeSource):
    """A sample plugin's source of one node, `poem-recite`, with the alias `poem-RECITE`.

    Its node may not run if it is `withheld`, and every use of it is wrong if it is `unfit`.
    """

    def __init__(
        self,
        name: str = "poems",
        prefix: str = "poem-",
        description: str = "Recite a poem",
        withheld: Problem | None = None,
        unfit: Problem | None = None,
    ) -> None:
        self.name = name
        self.prefixes = (prefix,)
        self.description = description
        self.withheld = withheld
        self.unfit = unfit
        self.listed = 0  # calls of `entries`
        self.asked: list[str] = []  # by `get`
        self.uses: list[NodeUse] = []  # passed to `check_use`

    def fingerprint(self) -> str:
        """Return the sample source's description, the only part of its entry that changes."""
        return self.description

    def get(self, node_type: str) -> Entry | None:
        """Return the sample entry, by its name or its alias."""
        self.asked.append(node_type)
        return self._entry() if node_type.lower() == f"{self.prefixes[0]}recite" else None

    def entries(self) -> Iterator[Entry]:
        """Yield the one sample entry."""
        self.listed += 1
        yield self._entry()

    def missing(self, node_type: str) -> Problem | None:
        """Explain, as a sample plugin's source, that a poem was never written."""
        return Problem(message=f"{node_type} was never written", suggestion="Write it", kind="not_found")

    def check_use(self, use: NodeUse) -> Iterable[Problem]:
        """Note a use of the sample node, and return what is wrong with it."""
        self.uses.append(use)
        return (self.unfit,) if self.unfit else ()

    def _entry(self) -> Entry:
        return Entry(
            node=f"{self.prefixes[0]}recite",
            class_name="Recite",
            module=__name__,
            description=self.description,
            source=self.name,
            withheld=self.withheld,
            interface=Interface(
                params=(Field(key="text"), Field(key="fail", type="str")),
                outputs=(Field(key="said"),),
                inputs=("text",),
            ),
        )


class _Orate:
    """A sample plugin's command, without a parser."""

    def main(self, args: Sequence[str], prog_name: str, *, standalone_mode: bool, **extra: Any) -> Report:
        host: Host = extra["obj"]
        words = [word for word in args if word != "--json"]
        if "fail" in words:
            raise PflowError("nothing to say", kind="connection", details={"words": words})
        return Report(data={"words": words, "program": prog_name, "config": str(host.paths.config)})


orate = _Orate()


def plugin(**hooks: Callable[..., Any]) -> SimpleNamespace:
    """Return a sample plugin that implements these hooks."""
    return SimpleNamespace(**{name: hookimpl(function) for name, function in hooks.items()})


def poetry(*sources: object) -> SimpleNamespace:
    """Return a sample plugin that registers these sources, `Poems` if none is given."""
    found = list(sources) or [Poems()]
    return plugin(pflow_register_nodes=lambda host: found)


class Listening:
    """A sample plugin whose contexts record how they are entered and left, and keep the run."""

    def __init__(self, name: str, events: list[object], *, swallow: bool = False) -> None:
        self.name = name
        self.events = events
        self.swallow = swallow
        self.run: Run | None = None

    @hookimpl
    def pflow_run_context(self, run: Run) -> Listening:
        """Offer the sample plugin itself as the context."""
        self.run = run
        return self

    def __enter__(self) -> None:
        self.events.append(f"{self.name} in")

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        self.events.append(f"{self.name} out")
        if error is not None:
            self.events.append(error)
        return self.swallow
