"""The program `pflow`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click
import pluggy

from pflow_mcp_plugin.contract import PflowError, Report
from pflow_mcp_plugin.host.cli.command_tree import PROGRAM, build_cli
from pflow_mcp_plugin.host.cli.output import Output, wants_json
from pflow_mcp_plugin.host.embedded_host import open_host
from pflow_mcp_plugin.host.interruption import interrupts_kept
from pflow_mcp_plugin.host.standard_streams import is_of_output, lost, prepare_streams


def main(argv: Sequence[str] | None = None, manager: pluggy.PluginManager | None = None) -> int:
    """Run a command line: open the host, run the command, print its report, return the exit code.

    Args:
        argv: The arguments; by default those of the process.
        manager: Plugins to use instead of the installed ones.
    """
    prepare_streams()
    arguments = list(sys.argv[1:] if argv is None else argv)
    output = Output(as_json=wants_json(arguments))
    try:
        with interrupts_kept(), open_host(manager) as host:
            result = build_cli(host).main(arguments, prog_name=PROGRAM, obj=host, standalone_mode=False)
            if isinstance(result, int):  # the help or the version was shown
                return result
            return output.report(result if isinstance(result, Report) else Report())
    except PflowError as error:
        _debug(error)
        return output.fail(error)
    except click.ClickException as error:
        return output.fail(_misused(error))
    except (KeyboardInterrupt, click.Abort):
        return output.fail(PflowError("interrupted", kind="interrupted"))
    except OSError as error:
        if not is_of_output(error):
            raise
        return lost(sys.stdout, error)


def report_interruption() -> int:
    """Report a Ctrl-C that came before the command line was run, and return the exit code."""
    prepare_streams()
    return Output(as_json=wants_json(sys.argv[1:])).fail(PflowError("interrupted", kind="interrupted"))


def _misused(error: click.ClickException) -> PflowError:
    context = getattr(error, "ctx", None)
    suggestions = (f"See: {context.command_path} --help",) if context else ()
    return PflowError(error.format_message(), suggestions=suggestions, kind="usage")


def _debug(error: PflowError) -> None:
    if os.environ.get("PFLOW_DEBUG"):
        import traceback

        traceback.print_exception(error)
