"""How pflow is served over HTTP: streamable HTTP at `/mcp`, stateless, for clients with a token.

A request passes `request_gate` (Host, Origin, token), then `request_limits` (how many, how large, how
long), and reaches the SDK's application. `http_app` puts them together, `http_server` serves that with
uvicorn until a signal ends it. `bearer_token` and `authorization_server` say which tokens are accepted;
`caller` names whose request it is.
"""

__all__: list[str] = []
