"""The completion of command lines, and the command `pflow completion`, which prints a shell's script for it.

A line is followed through the command tree to its leaf, whose click command knows its options and what its
arguments may be. A command with a method `complete_words` decides itself what may follow.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import click
import pluggy

from pflow_mcp_plugin.contract import Report, Suggestion
from pflow_mcp_plugin.host.cli.command_line import PROGRAM, Branch, Leaf, build_cli
from pflow_mcp_plugin.host.completion.installation import SHELLS, installation, script
from pflow_mcp_plugin.host.completion.shell_reply import TypedLine, read_request, reply
from pflow_mcp_plugin.host.ctrl_c import EXIT_CODE
from pflow_mcp_plugin.host.embedded_host import EmbeddedHost, open_host


def complete(arguments: Sequence[str], manager: pluggy.PluginManager | None = None) -> int:
    """Complete a `pflow` command for a shell: print what may follow, or nothing; return the exit code."""
    out, lines = sys.stdout, ""
    try:
        # What plugins print is discarded.
        with (
            Path(os.devnull).open("w", encoding="utf-8") as nowhere,
            redirect_stdout(nowhere),
            redirect_stderr(nowhere),
        ):
            line = read_request(arguments[0], arguments[1:])
            with open_host(manager, show=lambda _: None) as host:
                lines = "\n".join(reply(arguments[0], line, suggestions(host, line)))
    except KeyboardInterrupt:
        return EXIT_CODE
    except Exception:  # noqa: BLE001 - a message would appear in the middle of the line being typed
        return 0
    if lines and out is not None:
        out.buffer.write(f"{lines}\n".encode("utf-8", "replace"))
        out.flush()
    return 0


def suggestions(host: EmbeddedHost, line: TypedLine) -> Iterable[Suggestion]:
    """Return the completions of a `pflow` command line at its cursor, from the command its words lead to."""
    if line.redirected:
        return [Suggestion(value="", type="file")]
    branch, path, words = build_cli(host), PROGRAM, list(line.words)
    while words:
        word = words.pop(0)
        command = branch.commands.get(word)
        if word == "--project":
            host.use_project()
        if word.startswith("-"):
            continue  # an option of the branch; none of them takes a value
        path = f"{path} {word}"
        if isinstance(command, Leaf):
            return command.suggestions(host, path, words, line.current)
        if not isinstance(command, Branch):
            return _of_fallback(branch, host, path, [word, *words], line.current)
        branch = command
    found = [
        Suggestion(value=name, help=command.get_short_help_str(limit=80))
        for name, command in sorted(branch.commands.items())
        if name.startswith(line.current) and not command.hidden
    ]
    if line.current.startswith("-"):
        context = click.Context(branch, resilient_parsing=True)
        options = click.Command.shell_complete(branch, context, line.current)
        found += [Suggestion(value=item.value, help=item.help or "") for item in options]
    return [*found, *_of_fallback(branch, host, path, [], line.current)]


def _of_fallback(
    branch: Branch, host: EmbeddedHost, path: str, words: list[str], incomplete: str
) -> list[Suggestion]:
    """Return the fallback's completions of a command line without a command, once its first word is begun."""
    if branch.fallback is None or not (words or incomplete) or (not words and incomplete.startswith("-")):
        return []
    return branch.fallback.suggestions(host, path, words, incomplete)


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.option("--install", is_flag=True, help="Write the script where the shell finds it.")
@click.option("--uninstall", is_flag=True, help="Remove what --install wrote.")
@click.pass_obj
def completion(host: EmbeddedHost, shell: str, *, install: bool, uninstall: bool) -> Report:
    """Print the completion script of a shell, or install it."""
    if install and uninstall:
        raise click.UsageError("--install and --uninstall exclude each other.")
    if not install and not uninstall:
        text = script(shell)
        return Report(data={"shell": shell, "script": text}, text=text, is_data=True)
    place = installation(shell, host.paths.data)
    paths = [str(path) for path in (place.install() if install else place.uninstall())]
    data = {"shell": shell, "written": paths if install else [], "removed": [] if install else paths}
    lines = [f"Wrote {path}" if install else f"Removed completion from {path}" for path in paths]
    end = ["New shells complete `pflow`"] if install else []
    return Report(data=data, text="\n".join([*(lines or ["Nothing to change"]), *end]))
