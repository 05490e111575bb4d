"""What this package serves over MCP: `demo`, the bundled server to try things with."""
