"""The commands `pflow mcp ...`: each reads its options, calls the function that does the work, and reports.

`dependencies` builds what the commands work with from the host. A module has
one command, or a few that belong together.
"""

__all__: list[str] = []
