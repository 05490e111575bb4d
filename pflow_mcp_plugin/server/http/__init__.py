"""How pflow is served over HTTP: streamable HTTP at `/mcp`, stateless, for clients with a token.

A request passes `request_gate` and `request_limits`, and reaches the application of the SDK.

- `http_app`: the application, put together; start reading here
- `request_gate`: Host, Origin and the token of a request
- `request_limits`: how many requests, how large, how long
- `token_verdict`: what a token allows, or why it is refused
- `bearer_token`: the server's own token
- `access_tokens`, `authorization_server`: tokens of an authorization server, and its keys
- `caller`: who sent a request
- `http_server`: serves the application with uvicorn until a signal
- `bounded_connection`: a connection that ends if its client is too slow
- `listening_address`: the address and its socket
- `failure_lines`: what is logged
"""

__all__: list[str] = []
