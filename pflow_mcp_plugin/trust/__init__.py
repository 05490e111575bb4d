"""Decisions about a server's claims and its address; no I/O.

- `purity`: whether a tool may be run twice, from its annotations and what the user trusts
- `egress`: which hosts and addresses may be connected to, and whether without TLS
"""

__all__: list[str] = []
