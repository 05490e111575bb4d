"""The commands `pflow mcp ...`: each reads its options, calls the function that does the work, and reports.

`dependencies` builds what the commands work with from the host. Every other
module is one command.
"""

__all__: list[str] = []
