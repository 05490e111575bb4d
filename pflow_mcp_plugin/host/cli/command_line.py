"""The command line of `pflow`: the commands of all plugins as one tree of click groups, and a run of one.

A leaf of the tree is an announced command: help and completion import nothing; the code of a command is
imported when it is called. A branch may have a fallback: the leaf that receives words that name none of its
commands.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from errno import EPIPE
from functools import partial
from importlib import import_module
from os import strerror
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import pluggy

from pflow_mcp_plugin.contract import Command, CommandLike, Kind, PflowError, Report
from pflow_mcp_plugin.contract.problems import advice
from pflow_mcp_plugin.host.cli.output import Output, wants_json
from pflow_mcp_plugin.host.embedded_host import EmbeddedHost, open_host, warning_lines
from pflow_mcp_plugin.host.foreign_code import interrupts_kept
from pflow_mcp_plugin.host.plugins import Plugin, PluginFailed, Plugins, own_distribution, plugin_code
from pflow_mcp_plugin.host.standard_streams import Streams, is_of_output, write

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract import Suggestion

PROGRAM = "pflow"
_PLANNER = "plan"
"""The command that takes a task in words; someone may type the task without it."""
_HELP_OPTIONS = ("-h", "--help")
_eager_flag = partial(click.Option, is_flag=True, is_eager=True, expose_value=False)
"""Makes an option of the tree's commands that acts before the others are read."""
_ROOT_HELP = "Run workflows, and manage the nodes that they are made of."
_ROOT_EPILOG = """\b
pflow help COMMAND    shows the options of a command, as pflow COMMAND --help does
pflow GROUP           lists the commands of a group
pflow NODE --help     shows the flags of a node"""


class Answer(NamedTuple):
    """What a command returned.

    `guard` turns what the plugin's code raises while the report is read into a failure of the plugin. If
    `strict`, an unreadable value counts as such a failure too; the host's own reports are not strict, as
    their values may come from any plugin or node.
    """

    report: Report
    guard: Callable[[], AbstractContextManager[None]]
    strict: bool


class Branch(click.Group):
    """A branch of the command tree, a group of commands; called without a command it prints its help.

    `plugins` are all of them, to explain why a command is missing; `params` are options besides `--json` and
    `--project`.
    """

    def __init__(
        self, name: str, help_text: str, plugins: Plugins, params: Iterable[click.Parameter] = ()
    ) -> None:
        super().__init__(
            name,
            help=help_text,
            params=[*params],
            callback=_show_help,
            invoke_without_command=True,
            context_settings={"help_option_names": list(_HELP_OPTIONS)},
        )
        self.fallback: Leaf | None = None
        """The command that receives words that name no command of the branch."""
        self._plugins = plugins

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        if self.add_help_option:  # asked for the first time, as few branches of the tree are
            as_json = click.Option(["--json"], is_flag=True, help="Print one JSON object.", hidden=True)
            self.params += [_project_option(hidden=self.name != PROGRAM), as_json]
            _add_help_option(self)
        return super().get_params(ctx)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Treat `help COMMAND` of a branch as `COMMAND --help`."""
        asks = args[:1] == ["help"] and "help" not in self.commands
        asked = [] if args[1:] == ["help"] else args[1:]
        return super().parse_args(ctx, [*asked, "--help"] if asks else args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        shown = {name: command for name, command in sorted(self.commands.items()) if not command.hidden}
        for title, is_group in (("Commands", False), ("Groups", True)):
            of_kind = {name: it for name, it in shown.items() if isinstance(it, Branch) == is_group}
            rows = [(name, command.get_short_help_str()) for name, command in of_kind.items()]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)
        if self.fallback is not None:
            path = ctx.command_path
            long = f"{path} {self.fallback.name}"
            formatter.write_paragraph()
            formatter.write_text(f"Any other word goes to {self.fallback.name}: `{path} X` is `{long} X`.")

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if self.get_command(ctx, args[0]) is not None:
            return super().resolve_command(ctx, args)
        if self.fallback is None:
            raise self.unknown(ctx, args)
        return args[0], Fallback(self, self.fallback), args

    def unknown(
        self, ctx: click.Context, words: Sequence[str], error: PflowError | None = None
    ) -> PflowError:
        """Return the error for a word that names no command of this group; `error` is its fallback's."""
        from pflow_mcp_plugin.host.cli.command_suggestions import meant_commands

        path, name = ctx.command_path, words[0]
        suggestions = [f"Did you mean {it}?" for it in meant_commands(ctx, words, partial(_takes, ctx.obj))]
        absent = (plugin for plugin in self._plugins.all if plugin.name == name and plugin.status != "loaded")
        suggestions += [f"The plugin {plugin.label} is {plugin.status}: {plugin.reason}" for plugin in absent]
        if " " in name and _PLANNER in self.commands:
            suggestions.append(f"To make a workflow from words: {path} {_PLANNER} {shlex.quote(name)}")
        suggestions += error.suggestions if error else ()
        return PflowError(
            f"No such command: {path} {name}" + (f"; {error.message}" if error else ""),
            details=error.details if error else {},
            suggestions=tuple(suggestions) or (f"See: {path} --help",),
            problems=error.problems if error else (),
            kind="usage",
        )


class Leaf(click.Command):
    """A leaf of the tree of click groups; its code is imported when called, and parses its arguments."""

    def __init__(self, announced: Command, plugin: Plugin) -> None:
        super().__init__(
            announced.path[-1],
            help=announced.help,
            short_help=announced.help,
            hidden=announced.hidden,
            add_help_option=False,  # the command's own parser answers `--help`
        )
        self.announced = announced
        self.plugin = plugin

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Leave the arguments of a leaf to its command, which is imported only when called."""
        ctx.args = args
        return args

    def invoke(self, ctx: click.Context) -> Answer:
        path = self.path(ctx)
        try:
            command = self.load(path)
            with self._guard(path), _click_errors_translated():
                stdout = sys.stdout
                try:
                    result = command.main(ctx.args, prog_name=path, obj=ctx.obj, standalone_mode=False)
                except (click.exceptions.Exit, SystemExit) as end:
                    # For any broken pipe, click wraps standard output and exits.
                    if sys.stdout is not stdout and hasattr(sys.stdout, "wrapped"):
                        raise BrokenPipeError(EPIPE, strerror(EPIPE)) from None
                    result = end.code if isinstance(end, SystemExit) else end.exit_code
                else:
                    # click returns the code of its own exit, after the help for example.
                    if not (result is None or type(result) is int or isinstance(result, Report)):
                        raise TypeError(f"it returned a {type(result).__name__}, not a Report")
                report = result if isinstance(result, Report) else self._ended(path, result)
        except PflowError as error:
            explained = self.explained(error, ctx)
            if explained is error:
                raise
            raise explained from error
        return Answer(report, partial(self._guard, path), not self.plugin.own)

    def path(self, ctx: click.Context) -> str:
        return ctx.command_path

    def explained(self, error: PflowError, ctx: click.Context) -> PflowError:
        """Return the error of a command in the tree, with a hint if its arguments may be for a fallback."""
        above = ctx.parent
        fallback = above.command.fallback if above and isinstance(above.command, Branch) else None
        if error.kind == "usage" and ctx.args and above and fallback:
            word, long = self.announced.path[-1], f"{above.command_path} {fallback.name}"
            if _takes(ctx.obj, long, fallback, word):
                line = f"{long} {shlex.join([word, *ctx.args])}"
                error.suggestions += (f"If the command {word} is not meant: {line}",)
        return error

    def load(self, path: str) -> CommandLike:
        """Import the code of a leaf's command; a click command gets `--json` and `--project`."""
        with plugin_code(self.plugin, f"could not load the command `{path}`"):
            module, _, attribute = self.announced.load.partition(":")
            command: CommandLike = getattr(import_module(module), attribute)
        if isinstance(command, click.Command):
            there = {option for parameter in command.params for option in parameter.opts}
            command.context_settings["help_option_names"] = [it for it in _HELP_OPTIONS if it not in there]
            if "--json" not in there:
                help_text = "Print the result as one JSON object."
                command.params.append(
                    click.Option(["--json"], is_flag=True, expose_value=False, help=help_text)
                )
            if "--project" not in there:
                command.params.append(_project_option(hidden=True))
            _add_help_option(command)
        return command

    def suggestions(
        self, host: EmbeddedHost, path: str, words: Sequence[str], incomplete: str
    ) -> list[Suggestion]:
        """Import the code of this command and return its completions; none if either fails."""
        from click.shell_completion import ShellComplete

        from pflow_mcp_plugin.contract import Suggestion
        from pflow_mcp_plugin.host.cli.command_parameters import WithLoneCache

        try:
            command = self.load(path)
            with plugin_code(self.plugin, "could not complete"):
                if hasattr(command, "complete_words"):
                    found = list(command.complete_words(words, incomplete, obj=host))
                    if wrong := next((it for it in found if not isinstance(it, Suggestion)), None):
                        raise TypeError(f"complete_words returned a {type(wrong).__name__}, not a Suggestion")
                    return found
                if isinstance(command, click.Command):
                    shell = ShellComplete(command, {"obj": host}, path, "")
                    # click would take the word after a lone option as the value of the option.
                    given = command.spelled_out(words) if isinstance(command, WithLoneCache) else list(words)
                    return list(_whole_words(shell.get_completions(given, incomplete), incomplete))
        except PflowError:  # its code, or a file that it reads, is damaged
            pass
        return []

    def _ended(self, path: str, code: object) -> Report:
        if code is None or (isinstance(code, int) and code == 0):
            return Report()
        how = f"ended with exit code {code}" if isinstance(code, int) else f"ended: {code}"
        raise _failed(path, self.plugin, how, "usage" if code == 2 else "execution")

    @contextmanager
    def _guard(self, path: str) -> Iterator[None]:
        """Report any exception that a leaf's command may not raise as a crash of its plugin."""
        try:
            with plugin_code(self.plugin, "crashed", passing=(PflowError, click.Abort)):
                yield
        except PluginFailed as failed:
            cause = failed.__cause__
            if isinstance(cause, OSError) and is_of_output(cause):
                raise cause from None
            crash = _failed(path, self.plugin, failed.reason, "execution")
            crash.suggestions = ("This is a bug in the plugin; PFLOW_DEBUG=1 shows the traceback",)
            raise crash from cause


class Fallback(Leaf):
    """A leaf as the fallback of its branch, for words that name none of the branch's commands."""

    def __init__(self, branch: Branch, leaf: Leaf) -> None:
        super().__init__(leaf.announced, leaf.plugin)
        self._branch = branch

    def path(self, ctx: click.Context) -> str:
        return ctx.parent.command_path if ctx.parent else ""

    def explained(self, error: PflowError, ctx: click.Context) -> PflowError:
        if error.kind != "not_found" or error.details.get("unknown") != ctx.args[0]:
            return error
        return self._branch.unknown(ctx.parent, ctx.args, error) if ctx.parent else error


def _whole_words(items: Iterable[Any], incomplete: str) -> Iterator[Suggestion]:
    from pflow_mcp_plugin.contract import Suggestion

    option, is_joined, value = incomplete.partition("=")
    joined = f"{option}=" if is_joined and option.startswith("-") else ""
    for item in items:
        whole = str(item.value)
        if item.type in {"file", "dir"}:
            whole = joined  # click puts the value typed so far here
        elif not whole.startswith(incomplete):
            if not (joined and whole.startswith(value)):
                continue
            whole = joined + whole
        yield Suggestion(value=whole, help=item.help or "", type=item.type)


def _takes(host: object, path: str, command: click.Command, word: str) -> bool:
    if not isinstance(command, Leaf) or not isinstance(host, EmbeddedHost):
        return False
    offered = command.suggestions(host, path, [], word)
    if any(it.value == word for it in offered):
        return True
    return any(it.type in ("file", "dir") for it in offered) and Path(word).is_file()


@contextmanager
def _click_errors_translated() -> Iterator[None]:
    """Turn the errors that click raises in a leaf of the tree into ours; those it exits with stay."""
    try:
        yield
    except click.ClickException as error:
        raise wrong_usage(error) from error
    except click.Abort as abort:
        if isinstance(abort.__cause__, EOFError):  # click takes it for the end of a prompt
            raise abort.__cause__ from None
        raise


def wrong_usage(error: click.ClickException) -> PflowError:
    """Return click's complaint about a command of the tree as a PflowError that names its `--help`."""
    context = getattr(error, "ctx", None)
    suggestions = (f"See: {context.command_path} --help",) if context else ()
    return PflowError(error.format_message(), suggestions=suggestions, kind="usage")


def build_cli(host: EmbeddedHost) -> Branch:
    """Build the tree of every command that the host and its plugins announce."""
    version = _eager_flag(["--version", "-V"], callback=_show_version, help="Show the version and exit.")
    root = Branch(PROGRAM, _ROOT_HELP, host.plugins, [version])
    root.epilog = _ROOT_EPILOG
    for plugin, commands in host.plugins.collect("pflow_register_commands"):
        for command in commands:
            problem = ""
            with host.plugins.reporting(plugin, "registered an invalid command"):
                problem = _graft(root, command, plugin, host.plugins)
            if problem:
                message = f"Plugin {plugin.label}: {problem}"
                host.report(advice("", message, source=plugin.name))
    _describe_groups(root)
    return root


def leaves(group: click.Group) -> Iterator[Leaf]:
    """Yield every command in a tree of click groups on the command line."""
    for command in group.commands.values():
        if isinstance(command, Leaf):
            yield command
        elif isinstance(command, click.Group):
            yield from leaves(command)


def _add_help_option(command: click.Command) -> None:
    """Give a command of the tree its option for help: click's own looks for a translation, 3 ms."""
    if command.add_help_option and (names := command.context_settings["help_option_names"]):
        text = "Show this message and exit."
        command.params.append(_eager_flag([*names, "asks_help"], callback=_show_usage, help=text))
    command.add_help_option = False


def _project_option(*, hidden: bool) -> click.Option:
    # Eager, as arguments are completed and checked with it.
    help_text = "Use the config of the project in the current folder, too."
    return _eager_flag(["--project"], callback=_use_project, help=help_text, hidden=hidden)


def _graft(root: Branch, command: object, plugin: Plugin, plugins: Plugins) -> str:
    """Add a command to the tree; return what is wrong with it, empty if nothing is."""
    if not isinstance(command, Command):
        return f"{command!r} is not a Command"
    place: click.Command = root
    for word in command.path[:-1]:
        if not isinstance(place, Branch):
            break
        place = place.commands.get(word) or place.commands.setdefault(word, Branch(word, "", plugins))
    place.help = place.help or command.group
    words = " ".join(command.path)
    if not isinstance(place, Branch):
        return f"the command `{words}` is below another command"
    there = place.commands.get(command.path[-1])
    if isinstance(there, Leaf):
        return f"the command `{words}` is already provided by the plugin {there.plugin.label}"
    if there is not None:
        return f"the command `{words}` is already a group of commands"
    leaf = Leaf(command, plugin)
    place.add_command(leaf)
    if command.fallback and place.fallback is not None:
        first = place.fallback
        others = " ".join(first.announced.path)
        return f"`{words}` cannot be a fallback too: `{others}` of the plugin {first.plugin.label} is one"
    place.fallback = leaf if command.fallback else place.fallback
    return ""


def _describe_groups(group: click.Group) -> None:
    """Describe a group of the tree by the line that its commands give for it, otherwise by their names."""
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


def _use_project(ctx: click.Context, _parameter: click.Parameter, wanted: object) -> None:
    if wanted and isinstance(ctx.obj, EmbeddedHost):
        ctx.obj.use_project()


def _show_usage(ctx: click.Context, _parameter: click.Parameter, wanted: object) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo(ctx.get_help())
        ctx.exit()


def _show_version(ctx: click.Context, _parameter: click.Parameter, wanted: object) -> None:
    if wanted and not ctx.resilient_parsing:
        mine = own_distribution()
        click.echo(f"{PROGRAM} {mine.version} ({mine.name})" if mine else f"{PROGRAM} (not installed)")
        ctx.exit()


def _failed(path: str, plugin: Plugin, reason: str, kind: Kind) -> PflowError:
    details = {"plugin": plugin.name, "distribution": plugin.distribution, "version": plugin.version}
    return PflowError(f"`{path}` of the plugin {plugin.label} {reason}", details=details, kind=kind)


def main(argv: Sequence[str] | None = None, manager: pluggy.PluginManager | None = None) -> int:
    """Run a command line and return the exit code; `manager` replaces the installed plugins."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    as_json = wants_json(arguments)
    # Standard output may be a protocol: what plugins print before and after a command goes to standard error.
    with Streams(reserve=True) as streams:
        output = Output(streams, as_json=as_json)
        try:
            with (
                interrupts_kept(),
                open_host(manager, show=lambda it: streams.tell(warning_lines(it))) as host,
            ):
                command_line = build_cli(host)
                with streams.lent(reserve=as_json):
                    answer = command_line.main(arguments, prog_name=PROGRAM, obj=host, standalone_mode=False)
                    if isinstance(answer, Answer):
                        return output.report(answer.report, guard=answer.guard(), strict=answer.strict)
                    return output.report(answer if isinstance(answer, Report) else Report())
        except PflowError as error:
            if os.environ.get("PFLOW_DEBUG"):
                import traceback

                write(sys.stderr, "".join(traceback.format_exception(error)))
            return output.fail(error)
        except click.ClickException as error:
            return output.fail(wrong_usage(error))
        except (KeyboardInterrupt, click.Abort):
            return output.fail(PflowError("interrupted", kind="interrupted"))
        except (OSError, SystemExit) as error:
            if isinstance(error, SystemExit):  # by which click ends if the reader of its output is gone
                error = BrokenPipeError()
            elif not is_of_output(error):
                raise
            return streams.lost(error)


def report_interruption() -> int:
    """Report, as the program `pflow` does, that Ctrl-C came before `main` ran; return its exit code."""
    with Streams() as streams:
        output = Output(streams, as_json=wants_json(sys.argv[1:]))
        return output.fail(PflowError("interrupted", kind="interrupted"))
