"""Decisions about a server's claims and its address; no I/O.

- `purity`: whether a tool may be run twice, from its annotations and what the user trusts
- `egress`: whether a URL may be connected to without TLS
"""

__all__: list[str] = []
