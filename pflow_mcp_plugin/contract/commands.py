"""The commands that a plugin contributes to any host's command line, and the reports that they return."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from pflow_mcp_plugin.contract.problems import PflowError
from pflow_mcp_plugin.contract.validators import ByFields, each, flag, is_a, items, text, valid_name
from pflow_mcp_plugin.terminal.looks import printable

if TYPE_CHECKING:  # few commands return tables
    from pflow_mcp_plugin.terminal.tables import Table

    Shown = str | tuple[str | Table, ...]

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
