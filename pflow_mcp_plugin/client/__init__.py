"""The only room that talks to servers.

- `pool`: what the other rooms use; one `Pool` for each run. Start reading here.
- `kept_servers`: a pool that outlives a run, shared by the runs of one caller
- `supervisor`: one server of a pool: started, connected to, and reconnected when it is lost, a few times
- `connection`: one task opens, serves and closes a connection
- `session`, `sdk_internals`: the SDK's session, answers to what servers ask during a call, and the private
  members of the SDK that are used
- `negotiation`: the protocol version that both sides speak
- `tool_lists`: the pages of a tool list, combined and redacted
- `deadlines`: how long requests and starts may take
- `request_failures`: the exceptions of a failed request, with what is known about it
- `oauth`: signing in to servers, their access tokens
- `transport`: stdio, sockets, streamable HTTP and SSE
- `server_process`: a server's process and environment; package runners, which download it first
- `failures`: failures translated into our error tree
- `background_loop`: the event loop that all of this runs on

Importing this package loads neither the SDK nor asyncio. `connection`, and all that imports `session`, which
loads the SDK, are imported on the event loop's thread only.
"""

from pflow_mcp_plugin.client.pool import Pool

__all__ = ["Pool"]
