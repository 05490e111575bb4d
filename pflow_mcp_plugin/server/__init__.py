"""MCP servers in this package: `demo`, the bundled server to try pflow with."""
