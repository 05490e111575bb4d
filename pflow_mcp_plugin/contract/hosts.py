"""The host as plugins meet it: the handle that every hook receives, and the commands that it runs for them.

A host extends `Host`, `Registry` and `Run`, and `Runner`, `Settings`, `Library` and `Traces` if it
has such a part. Members that a later 1.x adds to these classes have a default, so that a host written
for an earlier 1.x still works.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import attrs
import pluggy

from pflow_mcp_plugin.contract.problems import PflowError, Problem, errors_in
from pflow_mcp_plugin.contract.validators import ByFields, each, flag, is_a, items, text, valid_name
from pflow_mcp_plugin.terminal.looks import printable

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract.json_types import JSONObject
    from pflow_mcp_plugin.contract.libraries import Library, SavedWorkflow
    from pflow_mcp_plugin.contract.registries import Registry
    from pflow_mcp_plugin.contract.runners import Runner
    from pflow_mcp_plugin.contract.suggestions import Suggestion
    from pflow_mcp_plugin.terminal.looks import Table

    Shown = str | tuple[str | Table, ...]

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
        errors = errors_in(problems)
        if any(it.kind != "not_found" for it in errors):
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
        """Show the host's user a plugin's warning, once for each message until a run has ended."""

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
        """Let a plugin read a trace of its host: a dict with `run_id`, `success`, `error`, `steps` etc.

        Raises:
            PflowError: It cannot be read, or is not a trace.
        """


_WORD = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Command(ByFields):
    """A command that a plugin announces, without importing the code that runs it.

    Attributes:
        path: The words of the command: `("mcp", "add")` is `pflow mcp add`. Each consists of lower-case
            letters, digits and single hyphens.
        help: One line for the list of commands.
        load: `module:attribute` of a `CommandLike`, imported when the command runs.
        hidden: Left out of the list of commands.
        group: One line about the group that the command belongs to, for the list of groups; if several
            commands of a group have one, the first is used.
        fallback: Whether it also receives the words after its group that name no command of the group:
            then `pflow mcp x` is `pflow mcp call x`. One command of a group may be its fallback. If it does
            not know the first of the words either, it raises a `PflowError` of kind `not_found` whose
            details hold the word as `unknown`: the nearest commands of the group are then suggested too.

    Raises:
        ValueError: A field is invalid; names it.
    """

    path: tuple[str, ...] = attrs.field(converter=items, validator=each(str))
    help: str = attrs.field(validator=valid_name)
    load: str = attrs.field()
    hidden: bool = attrs.field(default=False, validator=flag)
    group: str = attrs.field(default="", validator=text)
    fallback: bool = attrs.field(default=False, validator=flag)

    @path.validator
    def _check_path(self, attribute: attrs.Attribute[tuple[str, ...]], value: tuple[str, ...]) -> None:
        if not value or not all(_WORD.fullmatch(word) for word in value):
            raise ValueError(f"Command.path must be words of a-z, 0-9 and hyphens, got {value!r}")

    @load.validator
    def _check_load(self, attribute: attrs.Attribute[str], value: str) -> None:
        module, colon, attribute_name = value.partition(":") if isinstance(value, str) else ("", "", "")
        if not (colon and all(word.isidentifier() for word in (*module.split("."), attribute_name))):
            raise ValueError(f"Command.load must have the form 'module:attribute', got {value!r}")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Report(ByFields):
    """The result of a plugin's command; the host prints it, for people or as the JSON envelope.

    Attributes:
        data: JSON value for `--json`.
        text: Lines for people, a tuple of lines and tables, or a function that returns either, called only
            when they are shown. What could steer a terminal or hide in them is escaped.
        is_data: Whether `text` is data for programs instead, such as an output of a run or a file's content.
            A host writes it unaltered unless it goes to a terminal; there it escapes the same characters.
        error: Set when the command did its work but the outcome is a failure; `data` then
            becomes the envelope's `error.details.data`.
        beside: Further keys of the envelope next to `data` or `error`, such as `trace_path`.
        exit_code: The process exit code, if it differs from the error's own; 0 to 255.

    Raises:
        ValueError: A field is of the wrong type.
    """

    data: object = None
    text: Shown | Callable[[], Shown] = attrs.field(default="", validator=is_a(str, tuple, Callable))
    is_data: bool = attrs.field(default=False, validator=flag)
    error: PflowError | None = attrs.field(default=None, validator=is_a(PflowError, type(None)))
    beside: Mapping[str, object] = attrs.field(factory=dict, validator=is_a(Mapping))
    exit_code: int | None = attrs.field(default=None)

    @exit_code.validator
    def _check_exit_code(self, attribute: attrs.Attribute[int | None], value: object) -> None:
        # Not `isinstance`: True is an int too.
        if value is not None and not (type(value) is int and 0 <= value <= 255):
            raise ValueError(f"Report.exit_code must be a whole number from 0 to 255 or None, got {value!r}")

    def render(self, width: int | None = None, *, coloured: bool = False) -> str:
        """Return the report's text for the host to print: made printable for people, data unaltered.

        Args:
            width: The width of the terminal, which tables are fitted to; None for none.
            coloured: Whether tables use the colours of a terminal.

        Raises:
            TypeError: The function `text` returns anything but text and tables.
        """
        shown = self.text() if callable(self.text) else self.text
        pieces = []
        for part in shown if isinstance(shown, tuple) else (shown,):
            if isinstance(part, str):
                pieces.append(part if self.is_data else printable(part))
            elif hasattr(part, "render"):
                pieces.append(part.render(width, coloured=coloured))
            else:
                raise TypeError(f"Report.text must return a string, it returned a {type(part).__name__}")
        return "\n".join(pieces)


class CommandLike(Protocol):
    """A plugin's command once it is loaded, such as a `click.Command`.

    The host calls `main(argv, prog_name="pflow mcp add", obj=host, standalone_mode=False)`.
    It returns a `Report` (or None) and raises `PflowError` for a failure, or click's own exceptions about
    the arguments. Anything else that it returns or raises is a failure of its plugin, and so is a report
    that cannot be printed. If it exits with a code (`sys.exit(7)`, `return 7`), 0 stands for success, 2 for
    wrong usage and any other for a failure, whose exit code is 1. `--json` belongs to the host, which looks
    for it in the arguments itself and adds the option to a click command that does not declare it; any
    other command must accept it.

    In shells the arguments and options of a click command are completed, by its `shell_complete` functions
    too. Any command may instead have a method `complete_words(words, incomplete, obj=host)`, which returns a
    `Suggestion` for each word that may stand after `words` and begins with `incomplete`.
    """

    def main(self, args: Sequence[str], prog_name: str, *, standalone_mode: bool, **extra: Any) -> Any:
        """Run the plugin's command: parse `args` and do the work.

        Args:
            args: The arguments after the command's words.
            prog_name: The program and the command's words, for usage messages.
            standalone_mode: False: the command returns and raises, it does not exit the process.
            extra: `obj`, the `Host`. A later 1.x may pass more.
        """
        ...
