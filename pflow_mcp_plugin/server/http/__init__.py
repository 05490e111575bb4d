"""How pflow is served over HTTP: streamable HTTP at `/mcp`, stateless, for clients with a token.

- `http_app`: the application, put together; start reading here
- `request_gate`: what a request passes before it reaches the application of the SDK: Host, Origin and token,
  then how many requests, how large, how long
- `request_tokens`: the server's own token, what a token allows, and who sent a request
- `access_tokens`: tokens of an authorization server, and its keys
- `http_server`: serves the application with uvicorn until a signal, and logs failures
- `listening_address`: the address and its socket
"""

__all__: list[str] = []
