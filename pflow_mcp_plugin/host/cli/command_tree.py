"""The commands of all plugins as one tree of click groups.

A leaf of the tree is an announced command: help and completion import nothing; the code of a command
is imported when it is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any

import attrs
import click

from pflow_mcp_plugin.contract import Command, PflowError, Problem, Report
from pflow_mcp_plugin.host.embedded_host import EmbeddedHost
from pflow_mcp_plugin.host.plugins import Plugin, PluginFailed, Plugins, own_distribution, plugin_code
from pflow_mcp_plugin.host.standard_streams import is_of_output

PROGRAM = "pflow"
_ROOT_HELP = "Run workflows, and manage the nodes that they are made of."
_ROOT_EPILOG = """\b
pflow GROUP           lists the commands of a group
pflow COMMAND --help  shows the options of a command"""
_PASSING = (PflowError, click.ClickException, click.Abort, click.exceptions.Exit, SystemExit)
"""Exceptions by which a command reports its outcome; click raises SystemExit for a closed pipe."""


class Branch(click.Group):
    """A group of commands; called without a command it prints its help.

    Args:
        name: The word that names the group.
        help_text: Its help.
        plugins: All plugins, to explain why a command is missing.
        params: Options besides `--json`.
    """

    def __init__(
        self, name: str, help_text: str, plugins: Plugins, params: Iterable[click.Parameter] = ()
    ) -> None:
        as_json = click.Option(["--json"], is_flag=True, help="Print one JSON object.", hidden=True)
        super().__init__(
            name,
            help=help_text,
            params=[*params, as_json],
            callback=_show_help,
            invoke_without_command=True,
        )
        self._plugins = plugins

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, then the groups of commands, one per line."""
        shown = {name: command for name, command in sorted(self.commands.items()) if not command.hidden}
        for title, is_group in (("Commands", False), ("Groups", True)):
            of_kind = {name: it for name, it in shown.items() if isinstance(it, Branch) == is_group}
            rows = [(name, command.get_short_help_str()) for name, command in of_kind.items()]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first argument names.

        Raises:
            PflowError: It does not exist; suggests the closest.
        """
        if self.get_command(ctx, args[0]) is None:
            raise self._unknown(ctx, args[0])
        return super().resolve_command(ctx, args)

    def _unknown(self, ctx: click.Context, name: str) -> PflowError:
        from difflib import get_close_matches

        suggestions = [
            f"Did you mean {ctx.command_path} {close}?" for close in get_close_matches(name, self.commands)
        ]
        absent = (plugin for plugin in self._plugins.all if plugin.name == name and plugin.status != "loaded")
        suggestions += [f"The plugin {plugin.label} is {plugin.status}: {plugin.reason}" for plugin in absent]
        return PflowError(
            f"No such command: {ctx.command_path} {name}",
            suggestions=tuple(suggestions) or (f"See: {ctx.command_path} --help",),
            kind="usage",
        )


class Leaf(click.Command):
    """An announced command; its code is imported when it is called, and parses its own arguments."""

    def __init__(self, announced: Command, plugin: Plugin) -> None:
        super().__init__(
            announced.path[-1],
            help=announced.help,
            short_help=announced.help,
            hidden=announced.hidden,
            add_help_option=False,
        )
        self.announced = announced
        self.plugin = plugin

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Leave the arguments to the command itself."""
        ctx.args = args
        return args

    def invoke(self, ctx: click.Context) -> Any:
        """Import the command and run it.

        Raises:
            PflowError: The command failed, crashed, or cannot be imported.
        """
        path = ctx.command_path
        with plugin_code(self.plugin, f"could not load the command `{path}`"):
            module, _, attribute = self.announced.load.partition(":")
            command = getattr(import_module(module), attribute)
        with self._guard(path):
            result = command.main(ctx.args, prog_name=path, obj=ctx.obj, standalone_mode=False)
        if isinstance(result, Report) and callable(result.text):
            return attrs.evolve(result, text=partial(self._render, path, result))
        return result

    def _render(self, path: str, report: Report) -> str:
        with self._guard(path):
            return report.render()

    @contextmanager
    def _guard(self, path: str) -> Iterator[None]:
        """Report any other exception than a command may raise as a crash of its plugin."""
        try:
            with plugin_code(self.plugin, "crashed", passing=_PASSING):
                yield
        except PluginFailed as failed:
            cause = failed.__cause__
            if isinstance(cause, OSError) and is_of_output(cause):
                raise cause from None
            raise _crash(path, self.plugin, failed) from cause


def build_cli(host: EmbeddedHost) -> click.Group:
    """Return the tree of every command that the host and its plugins announce."""
    version = click.Option(
        ["--version"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_show_version,
        help="Show the version and exit.",
    )
    root = Branch(PROGRAM, _ROOT_HELP, host.plugins, [version])
    root.epilog = _ROOT_EPILOG
    for plugin, commands in host.plugins.collect("pflow_register_commands"):
        for command in commands:
            problem = _graft(root, command, plugin, host.plugins)
            if problem:
                message = f"Plugin {plugin.label}: {problem}"
                host.report(Problem(message=message, severity="warning", kind="config", source=plugin.name))
    _describe_groups(root)
    return root


def leaves(group: click.Group) -> Iterator[Leaf]:
    """Yield every command of a tree."""
    for command in group.commands.values():
        if isinstance(command, Leaf):
            yield command
        elif isinstance(command, click.Group):
            yield from leaves(command)


def _graft(root: Branch, command: object, plugin: Plugin, plugins: Plugins) -> str:
    """Add a command to the tree; return what is wrong with it, empty if nothing is."""
    if not isinstance(command, Command):
        return f"{command!r} is not a Command"
    place: click.Command = root
    for word in command.path[:-1]:
        if not isinstance(place, Branch):
            break
        place = place.commands.setdefault(word, Branch(word, "", plugins))
    place.help = place.help or command.group
    words = " ".join(command.path)
    if not isinstance(place, Branch):
        return f"the command `{words}` is below another command"
    there = place.commands.get(command.path[-1])
    if isinstance(there, Leaf):
        return f"the command `{words}` is already provided by the plugin {there.plugin.label}"
    if there is not None:
        return f"the command `{words}` is already a group of commands"
    place.add_command(Leaf(command, plugin))
    return ""


def _describe_groups(group: click.Group) -> None:
    """Describe a group by the line that its commands give for it, otherwise by their names."""
    for child in group.commands.values():
        if isinstance(child, Branch):
            shown = [name for name, command in child.commands.items() if not command.hidden]
            child.short_help = child.help or ", ".join(sorted(shown))
            child.hidden = not shown
            _describe_groups(child)


@click.pass_context
def _show_help(ctx: click.Context, *, json: bool) -> Report | None:
    if ctx.invoked_subcommand is not None:
        return None
    if json:
        message = f"{ctx.command_path}: a command is missing"
        raise PflowError(message, suggestions=(f"See: {ctx.command_path} --help",), kind="usage")
    return Report(text=ctx.get_help())


def _show_version(ctx: click.Context, _parameter: click.Parameter, wanted: object) -> None:
    if wanted and not ctx.resilient_parsing:
        mine = own_distribution()
        click.echo(f"{PROGRAM} {mine.version} ({mine.name})" if mine else f"{PROGRAM} (not installed)")
        ctx.exit()


def _crash(path: str, plugin: Plugin, failed: PluginFailed) -> PflowError:
    return PflowError(
        f"`{path}` of the plugin {plugin.label} {failed.reason}",
        details=failed.details,
        suggestions=("This is a bug in the plugin; PFLOW_DEBUG=1 shows the traceback",),
    )
