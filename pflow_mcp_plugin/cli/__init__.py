"""The commands `pflow mcp ...`: each reads its options, calls the function that does the work, and reports.

What the commands work with, they get from `discovery.servers`. A module has one command, or a few that belong
together.
"""

__all__: list[str] = []
