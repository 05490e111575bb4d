"""The program `pflow`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click
import pluggy

from pflow_mcp_plugin.contract import PflowError, Report
from pflow_mcp_plugin.host.cli.command_tree import PROGRAM, Answer, build_cli, wrong_usage
from pflow_mcp_plugin.host.cli.output import Output, wants_json
from pflow_mcp_plugin.host.embedded_host import open_host, warning_lines
from pflow_mcp_plugin.host.foreign_code import interrupts_kept
from pflow_mcp_plugin.host.standard_streams import Streams, is_of_output, write


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
