"""How pflow is served over HTTP: streamable HTTP at `/mcp`, stateless, for clients with a token.

- `http_app`: the application, and what a request passes before it gets there: Host, Origin and token, then
  how many requests, how large, how long; start reading at `build_app`
- `request_tokens`: which tokens are accepted, what they allow, and who sent a request
- `http_server`: serves the application with uvicorn until a signal, and logs failures
- `listening_address`: the address and its socket
"""

__all__: list[str] = []
