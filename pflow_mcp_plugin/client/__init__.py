"""The only room that talks to servers.

- `pool`: what the other rooms use; one `Pool` for each run. Start reading here.
- `supervisor`: one server of a pool: started, connected to, and reconnected when it is lost
- `restart_limit`: a server that keeps ending is not started for ever
- `connection`: one task opens, serves and closes a connection
- `session`, `sdk_internals`: the SDK's session, and the private members of the SDK that are used
- `negotiation`: the protocol version that both sides speak
- `pagination`: the pages of a list of tools put together
- `elicitation`: what servers ask during a call
- `deadlines`: how long requests may take
- `request_failures`: how a request can fail, and what is known of it then
- `exception_chain`: what is inside exception groups and behind exceptions
- `transport`: the ways that messages take, one module each
- `transport_probe`: whether a server that fails over HTTP speaks the other HTTP transport
- `process`: a server's process, from its start to its end
- `failures`: what went wrong, translated into our error tree
- `background_loop`: the event loop that all of this runs on

Importing this package loads neither the SDK nor asyncio.
"""

from pflow_mcp_plugin.client.pool import Pool

__all__ = ["Pool"]
