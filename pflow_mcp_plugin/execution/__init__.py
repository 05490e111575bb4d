"""A node runs: arguments in, one call, the result mapped out.

- `node`: `MCPNode`, the one class behind every tool
- `runtime`: what a run shares: servers ready to be called, the call itself and its hooks
- `progress`: how far a call has come, on a terminal and in the trace
- `arguments`: from params and the shared store to what is sent
- `validation`: whether that fits the tool's input schema; `plain` and `keywords` help it
- `result`: from what came back to values and files; `artifacts` writes the files
- `actions`: which action a failure takes
- `failure_words`: what a tool's own words say of it

Nothing here knows a particular server.
"""

__all__: list[str] = []
