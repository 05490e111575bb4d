"""The transports: how messages travel to a server and back.

- `line_transports`: lines of JSON over a process's pipes, over a Unix socket or a named pipe
- `http_transports`: streamable HTTP and server-sent events
- `http_requests`: the HTTP client that both use, and the requests sent with it
- `messages`: JSON-RPC messages from bytes, and back
"""
