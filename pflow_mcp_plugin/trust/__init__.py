"""Decisions about a server's claims and its address; no I/O.

- `purity`: whether a tool may be run twice, from its annotations and what the user trusts
- `tool_effects`: what a tool does to data, from its annotations and its transport
- `egress`: which hosts and addresses may be connected to, and whether without TLS
- `tool_checks`: what in a server's tools a person should look at, by these rules:
- `hidden_text`, `shadowing`, `claimed_names`, `doubtful_claims`: one or two rules each
- `look_alikes`, `known_names`, `tool_texts`: what the rules compare
- `findings`: what they find
"""

__all__: list[str] = []
