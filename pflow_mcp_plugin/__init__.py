"""pflow-mcp: the tools of every MCP server as workflow nodes.

Where to start reading, in the order data flows:

- `config`: the servers a person has, and how their config is checked, kept and expanded
- `presets`: ready-made servers, ours and those of other plugins
- `client`: the only room that talks to servers
- `discovery`: server to tools
- `catalog`: the tools of each server, kept in one file
- `trust`: what was approved of a server, and decisions about what it claims
- `registration`: tool to registry entry
- `injection`: node type to special parameters
- `execution`: a node runs: arguments in, a call, the result mapped out
- `cli`, `server`: commands, and what is served over MCP
- `contract`, `plugin`, `mcp_hookspecs`: how host and plugins meet
- `host`: a small pflow core that knows nothing of the above
"""
