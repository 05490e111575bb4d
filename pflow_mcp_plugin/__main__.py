"""The program: `pflow`, `pflow-mcp` and `python -m pflow_mcp_plugin` all start here."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line of this process and return the exit code."""
    try:
        from pflow_mcp_plugin.host.cli.main import main as run_command_line

        return run_command_line()
    except KeyboardInterrupt:  # while modules were still being imported
        return 130


if __name__ == "__main__":
    sys.exit(main())
