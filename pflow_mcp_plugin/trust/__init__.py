"""Decisions about a server's claims and its address; no I/O.

- `purity`: whether a tool may be run twice, from its annotations and what the user trusts
- `tool_effects`: what a tool does to data, from its annotations and its transport
- `tool_danger`: whether a new version of a tool must be approved before it is used
- `tool_difference`: what differs, as lines for people
- `schema_changes`, `schema_forms`, `schema_texts`: the difference between two versions of one JSON Schema;
  one form for those that say the same; the texts inside
- `text_changes`, `word_forms`: whether a text was only corrected
- `renamed_tools`: which tools came back under another name
- `json_equality`, `json_excerpt`: JSON values compared, and cut to what people read
- `egress`: which hosts and addresses may be connected to, and whether without TLS
- `tool_checks`: what in a server's tools a person should look at, by these rules:
- `hidden_text`, `shadowing`, `claimed_names`, `doubtful_claims`: one or two rules each
- `look_alikes`, `known_names`, `tool_texts`: what the rules compare
- `findings`: what they find
"""

__all__: list[str] = []
