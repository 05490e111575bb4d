"""Running a node: arguments in, one call, the result mapped to outputs.

- `node`: `MCPNode`, the one class behind every tool; gathers the arguments to send
- `runtime`: shared by the nodes of a run: servers ready to be called, and the call itself
- `call_hooks`: the hooks through which other plugins change, veto or answer calls; the progress of calls
- `current_host`: the host of a process in which no run is active
- `result`: an answer becomes values and files
- `failure_actions`: the action that a failed call takes

Nothing here is specific to a server.
"""

__all__: list[str] = []
