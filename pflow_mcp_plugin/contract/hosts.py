"""The handle on a host that every hook of a plugin receives: its folders, settings, traces and other parts.

A host extends `Host`, `Registry` and `Run`, and `Runner`, `Settings`, `Library` and `Traces` if it
has such a part. Members that a later 1.x adds to these classes have a default, so that a host written
for an earlier 1.x still works.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import attrs
import pluggy

from pflow_mcp_plugin.contract.problems import PflowError, Problem, errors_in
from pflow_mcp_plugin.contract.validators import ByFields

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract.commands import Report
    from pflow_mcp_plugin.contract.json_types import JSONObject
    from pflow_mcp_plugin.contract.libraries import Library, SavedWorkflow
    from pflow_mcp_plugin.contract.registries import Registry
    from pflow_mcp_plugin.contract.runners import Runner
    from pflow_mcp_plugin.contract.suggestions import Suggestion


API: tuple[int, int] = (1, 0)
"""Major and minor version of the contract in this package; see `docs/plugins.md`, "Versions"."""


class NetworkRules(NamedTuple):
    """The `[network]` settings of a host, as its plugins receive them: what servers and nodes may reach.

    With the `policy` registered, only the hosts in `hosts`, those in the URLs of configured servers, and
    those that `allow` matches are allowed. `allow` and `deny` are globs over host names, addresses and
    networks; what `deny` matches is refused in any case. An address that is not public may be behind a name
    only if an address or network in `allow` names it.
    """

    policy: Literal["open", "registered"] = "open"
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Paths(ByFields):
    """The folders that a host hands to its plugins; any of them may not exist yet.

    Attributes:
        config: Files that people edit or `settings` writes.
        data: Fetched or saved files that are kept.
        state: Traces and other files that runs leave behind.
        cache: Derived files; may be deleted at any time.
        project: The folder of a project whose own config the user asked for, None otherwise.
    """

    config: Path
    data: Path
    state: Path
    cache: Path
    project: Path | None = None


class Host(ABC):
    """Base class of any host, the handle on pflow core that every hook receives.

    Attributes:
        api: The version of the contract that the host was written for, such as `(1, 0)`. A plugin
            that needs a later addition checks it.
        paths: The folders to work in.
    """

    api: tuple[int, int]
    paths: Paths

    @property
    @abstractmethod
    def hook(self) -> pluggy.HookRelay:
        """The hook relay that a host offers to plugins, to call hooks that they specify themselves."""

    @property
    @abstractmethod
    def registry(self) -> Registry:
        """The host's registry of node types, for the plugins that receive this handle."""

    @property
    def runner(self) -> Runner | None:
        """The runner that a host offers to plugins; None if it cannot run workflows."""
        return None

    @property
    def settings(self) -> Settings | None:
        """The settings that a host offers to plugins; None if it saves none."""
        return None

    @property
    def library(self) -> Library | None:
        """The library that a host offers to plugins; None if it saves no workflows."""
        return None

    @property
    def traces(self) -> Traces | None:
        """The traces that a host offers to plugins; None if it writes none."""
        return None

    def save_workflow(
        self, workflow: JSONObject, name: str, description: str = ""
    ) -> tuple[SavedWorkflow, Sequence[Problem]]:
        """Let the host check a workflow and save it, in its normal form, in the library it offers to plugins.

        Args:
            workflow: The workflow as loaded.
            name: Its name in the library.
            description: What it is for; the workflow's own description when left empty.

        Returns:
            What was saved, and the problems that do not prevent saving: warnings, and node types that are
            not installed or synced yet.

        Raises:
            PflowError: Kind `validation` with every problem; or as for `Library.save`.
        """
        if self.library is None:
            raise PflowError("This pflow does not save workflows", kind="usage")
        problems = self.runner.validate(workflow) if self.runner else ()
        errors = [it for it in errors_in(problems) if it.kind != "not_found"]
        if errors:
            only = attrs.evolve(errors[0], suggestion="")
            what = f": {only}" if len(errors) == 1 else f", it has {len(errors)} errors"
            raise PflowError(
                f"The workflow is not saved{what}",
                problems=tuple(errors),
                suggestions=(errors[0].suggestion,) if len(errors) == 1 and errors[0].suggestion else (),
                kind="validation",
            )
        normal = self.runner.normalise(workflow) if self.runner else workflow
        return self.library.save(name, normal, description), problems

    def run_chain(self, words: Sequence[str], prog_name: str) -> Report:
        """Run nodes in this host as on its command line: each with its flags, `then` between them.

        The required text of a node that no flag sets is the result of the node before, or what is piped in.
        The words may also ask for the help of a node, or to save or print the chain as a workflow: what they
        mean is the host's.

        Args:
            words: The arguments, such as `["read-file", "--file-path", "a.txt", "then", "echo"]`.
            prog_name: The words before them, for messages.

        Returns:
            What a command returns: its `error` is set if a node failed.

        Raises:
            PflowError: Kind `usage`, `not_found` or `validation`, before anything has run. If the first word
                is no node type, `details` hold it as `unknown`, as the fallback of a group must raise it. By
                default always raised, with kind `usage`.
        """
        raise PflowError("This pflow does not run nodes from the command line", kind="usage")

    def complete_chain(self, words: Sequence[str], incomplete: str) -> Sequence[Suggestion]:
        """Return this host's suggestions at the cursor of a line for its `run_chain`; none by default.

        It starts no server and prompts nobody: it is called while somebody types.

        Args:
            words: The arguments before the cursor's word; none for the first node type.
            incomplete: What is typed of that word.
        """
        return ()

    @abstractmethod
    def report(self, problem: Problem) -> None:
        """Let the host show its user a plugin's warning, once for each message until a run has ended."""

    def run_ended(self) -> None:
        """Tell the host that a run is over: messages that plugins repeat are shown again.

        The runner calls it. Does nothing by default.
        """
        return

    def refresh(self, source: str) -> None:
        """Let the host renew what it made from a plugin's source of nodes, such as an index.

        Does nothing by default.
        """
        return


class Settings(ABC):
    """Base class of the settings that a host offers to plugins: the user's saved keys and values."""

    @abstractmethod
    def get(self, key: str) -> str | None:
        """Return a value from any host's settings, None if it is not set."""

    def names(self) -> Mapping[str, str]:
        """Return every key in any host's settings, with a word for where its value is stored, such as `file`.

        Empty by default: the host does not list its settings.
        """
        return {}

    def fingerprint(self) -> str:
        """Return a text that changes when one of any host's settings is saved, changed or deleted.

        Empty by default: the host cannot tell without reading them.
        """
        return ""

    def set(self, key: str, value: str) -> None:
        """Save a value in the settings that are part of a host.

        Raises:
            PflowError: Kind `usage` if `key` is invalid; or the value cannot be saved. Always raised by
                default.
        """
        raise PflowError(f"{key} cannot be set: this pflow does not save settings", kind="usage")

    def plain(self) -> Collection[str]:
        """Return the keys in any host's settings that the user marked as not secret; by default none."""
        return ()

    def unset(self, key: str) -> bool:
        """Delete a value from any host's settings; return whether it was set. By default, False."""
        return False


class Traces(ABC):
    """The part of the handle on a host by which plugins read the traces of earlier runs."""

    @abstractmethod
    def paths(self) -> Sequence[Path]:
        """Return the paths of all traces that this host lets plugins read, newest first."""

    @abstractmethod
    def find(self, run: str = "latest", *, owner: str | None = None) -> Path:
        """Return the path of a trace that plugins may read, by its run's id, the start of one, or `latest`.

        Args:
            run: The run. A path to one of the host's trace files stands for that file.
            owner: Only runs of this owner (see `RunOrigin`); of all by default.

        Raises:
            PflowError: Kind `not_found`: no run matches, or several do.
        """

    @abstractmethod
    def read(self, path: Path) -> JSONObject:
        """Return a trace as a host hands it to plugins: `run_id`, `owner`, `success`, `error`, `steps` etc.

        Raises:
            PflowError: It cannot be read, or is not a trace.
        """
