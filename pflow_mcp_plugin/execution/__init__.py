"""Running a node: arguments in, one call, the result mapped to outputs.

- `node`: `MCPNode`, the one class behind every tool
- `runtime`: shared by the nodes of a run: servers ready to be called, and the call itself
- `call_hooks`: the hooks through which other plugins change, veto or answer calls
- `current_host`: the host of a process in which no run is active
- `call_progress`: the progress of calls, for the trace and the host
- `call_arguments`: params and the shared store become the arguments to send
- `result`: an answer becomes values and files; `artifacts` writes the files
- `actions`: the action that a failure takes
- `failure_words`: the kind of failure that a tool's message describes

Nothing here is specific to a server.
"""

__all__: list[str] = []
