"""Run pflow with or without a record of its runs: `record_cost.py with ARGS...`; measures what it costs."""

import sys

from pflow_mcp_plugin.__main__ import main
from pflow_mcp_plugin.host.running import runner

if __name__ == "__main__":
    if "_is_worth_recording" not in vars(runner):
        sys.exit("The runner decides in another way what is recorded: mend this program")
    if sys.argv.pop(1) == "without":
        runner._is_worth_recording = lambda _: False  # noqa: SLF001 - there is no option for this
    sys.exit(main())
