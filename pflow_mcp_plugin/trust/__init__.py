"""Decisions over what a server claims and where it lies; no I/O.

- `purity`: whether a tool may be run twice, from its annotations and what the user trusts
- `egress`: whether a URL may be talked to in the clear
"""

__all__: list[str] = []
