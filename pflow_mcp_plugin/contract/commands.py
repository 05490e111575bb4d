"""What a plugin contributes to the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import attrs

from pflow_mcp_plugin.contract.problems import PflowError


def _words(path: Iterable[str]) -> tuple[str, ...]:
    return tuple(path)


@attrs.frozen(kw_only=True)
class Command:
    """A command, announced without importing what runs it.

    Attributes:
        path: The words that call it: `("mcp", "add")` is `pflow mcp add`.
        help: One line for the list of commands.
        load: `module:attribute` of a `CommandLike`, imported when the command runs.
        hidden: Left out of the list of commands.
        group: One line about the group of commands that it is in, for the list of groups; of
            several in one group, the first counts.
    """

    path: tuple[str, ...] = attrs.field(converter=_words)
    help: str
    load: str = attrs.field()
    hidden: bool = False
    group: str = ""

    @path.validator
    def _check_path(self, attribute: attrs.Attribute[tuple[str, ...]], value: tuple[str, ...]) -> None:
        if not value or not all(isinstance(word, str) and word for word in value):
            message = f"Command.path must hold at least one word, got {value!r}"
            raise ValueError(message)

    @load.validator
    def _check_load(self, attribute: attrs.Attribute[str], value: str) -> None:
        module, colon, name = value.partition(":")
        if not (module and colon and name):
            message = f"Command.load must read 'module:attribute', got {value!r}"
            raise ValueError(message)


@attrs.frozen(kw_only=True)
class Report:
    """What a command has to say; the host prints it, for people or as the JSON envelope.

    Attributes:
        data: JSON value for `--json`.
        text: Lines for people, or a function that makes them, called only when they are shown.
        error: Set when the command did its work but the outcome is a failure; `data` then
            stands in the envelope's `error.details.data`.
        beside: What stands in the envelope beside `data` or `error`, such as `trace_path`.
        exit_code: The process exit code, where it is not the error's own.
    """

    data: object = None
    text: str | Callable[[], str] = ""
    error: PflowError | None = None
    beside: Mapping[str, object] = attrs.field(factory=dict)
    exit_code: int | None = None

    def render(self) -> str:
        """Return the lines for people."""
        return self.text if isinstance(self.text, str) else self.text()


class CommandLike(Protocol):
    """A loaded command. A `click.Command` is one.

    The host calls `main(argv, prog_name="pflow mcp add", obj=host, standalone_mode=False)`.
    It returns a `Report` (or None) and raises `PflowError` for a failure; what else it raises is
    its parser's own complaint about the arguments. `--json` belongs to the host, which looks for
    it in the arguments itself; a command declares the option for the sake of its help.
    """

    def main(self, args: Sequence[str], prog_name: str, *, standalone_mode: bool, **extra: Any) -> Any:
        """Parse `args` and run; `extra` holds `obj`, the `Host`."""
        ...
