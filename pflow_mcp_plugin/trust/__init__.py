"""Decisions about a server's claims and its address; no I/O.

- `purity`: whether a tool may be run twice, from its annotations and what the user trusts
- `tool_effects`: what a tool does to data, from its annotations and its transport
- `egress`: which hosts and addresses may be connected to, and whether without TLS
"""

__all__: list[str] = []
