"""The commands `pflow mcp ...`: each reads its options, calls what does the work, and reports.

`compose` builds what the commands work with from the host's handle; `options` holds options that
several share. Every other module is one command.
"""

__all__: list[str] = []
