"""The ways that messages take to a server and back.

- `selection`: the transport of a server's config
- `stdio`, `sockets`: lines of JSON over a process's pipes, over a Unix socket or a named pipe
- `pipes`, `line_framing`: bytes over pipes, and lines out of them in linear time
- `streamable_http`, `sse`: the two HTTP transports
- `http_client`, `http_requests`: the HTTP client below them, and the requests sent with it
- `retry_after`: a request that a busy server refused is sent once more
- `messages`: JSON-RPC messages out of bytes, and back
- `surrogates`: half characters that JSON may hold and UTF-8 may not
"""
