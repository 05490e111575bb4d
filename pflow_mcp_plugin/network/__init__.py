"""Connections over HTTP, for host and client: to allowed hosts and addresses only.

- `egress`: which URLs, hosts and addresses are allowed, and whether plain http is; what an address is
- `checked_connections`: connections to the addresses that were checked, and the proxy for a URL
- `certificates`: those that are trusted, the client's own, and pinned public keys
- `content_codings`: compressed bodies of answers
- `http_headers`: headers that users cannot set; an answer's media type, when to ask again, the next page
"""
