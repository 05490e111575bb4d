"""Decisions about a server's claims and its address; no I/O.

What a tool claims:

- `purity`: whether a tool may be run twice, from its annotations and what the user trusts
- `tool_effects`: what a tool does to data, from its annotations and its transport

Whether a new version of a tool must be approved. Start reading at `tool_danger`:

- `tool_danger`: the verdict, from all differences
- `schema_changes`, `schema_keywords`: the difference between two versions of a JSON Schema; whether a change
  of one keyword accepts more or less
- `schema_forms`, `schema_texts`: one form for schemas that mean the same; the texts inside a schema
- `text_changes`, `word_forms`: whether a text was only corrected
- `renamed_tools`: which tools came back under another name
- `tool_difference`: the differences as lines for people
- `json_equality`, `json_excerpt`: JSON values compared, and shortened for people

What a person should look at in a server's tools. Start reading at `tool_checks`:

- `tool_checks`: applies all rules to a server
- `hidden_text`, `shadowing`, `claimed_names`, `doubtful_claims`: one or two rules each
- `look_alikes`, `name_index`, `tool_texts`: what the rules compare
- `tool_findings`: what they find, with the next step of each rule

Where pflow may connect to:

- `server_egress`: whether a server, or a URL that it names, may be connected to
"""

__all__: list[str] = []
