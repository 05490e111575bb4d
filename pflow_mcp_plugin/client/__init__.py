"""The only room that talks to servers.

- `pool`: what the other rooms use; one `Pool` for each run
- `slot`: a server's place in it: started, connected to, and made anew when lost
- `brake`: a server that ends over and over is not started for ever
- `spawning`, `environment`: a server's process and what it may see
- `ending`: how a process ends
- `reaper`, `reaper_process`: no process outlives pflow, however pflow ends
- `framing`, `pipes`: lines over pipes, in linear time
- `messages`: JSON-RPC messages out of those lines, and back
- `stdio`, `sockets`, `streamable_http`, `sse`: the transports; `transports` chooses one
- `transport_probe`: whether a server that fails over HTTP speaks the other of the two
- `http`, `http_requests`: the HTTP client below the last two, and the requests sent with it
- `retry_after`: a request that a busy server refused is sent once more
- `exchange`: how a request can fail, and what is known of it then
- `connection`: one owner task opens, serves and closes a connection
- `installation`: a package runner may have to download a server before it starts
- `deadlines`: how long its requests may take
- `explainer`: what there is to know when one fails
- `stderr_files`: what it wrote to stderr, where the error shows only a part
- `session`: the SDK's session, with malformed tools screened out and the raw answers returned
- `sdk_internals`: the private members of the SDK that are used
- `negotiation`: the version that both sides speak
- `listing`: the pages of tools put together
- `questions`: what servers ask in mid-call
- `loop`: the background event loop
- `failures`: what went wrong, translated into our error tree

Importing this package loads neither the SDK nor asyncio.
"""

from pflow_mcp_plugin.client.pool import Pool

__all__ = ["Pool"]
