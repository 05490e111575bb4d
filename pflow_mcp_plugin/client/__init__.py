"""The only room that talks to servers.

- `pool`: what the other rooms use; one `Pool` for each run. Start reading here.
- `supervisor`: one server of a pool: started, connected to, and reconnected when it is lost
- `restart_limit`: a server that keeps exiting is not restarted forever
- `connection`: one task opens, serves and closes a connection
- `session`, `sdk_internals`: the SDK's session, and the private members of the SDK that are used
- `negotiation`: the protocol version that both sides speak
- `pagination`: the pages of a tool list, combined
- `listing_redaction`: what a server says about itself and its tools, redacted
- `elicitation`: questions that servers ask during a call
- `deadlines`: how long requests may take
- `request_failures`: the exceptions of a failed request, with what is known about it
- `exception_chain`: the exceptions inside groups and behind other exceptions
- `granted_scopes`: the scopes in the config, compared with those of a token
- `oauth`: signing in to servers, their access tokens
- `sign_in_run`: runs a login for a command
- `transport`: stdio, sockets, streamable HTTP and SSE
- `transport_probe`: whether a server that fails over HTTP speaks the other HTTP transport
- `process`: a server's process, from its start to its end
- `failures`: failures translated into our error tree
- `background_loop`: the event loop that all of this runs on

Importing this package loads neither the SDK nor asyncio.
"""

from pflow_mcp_plugin.client.pool import Pool

__all__ = ["Pool"]
