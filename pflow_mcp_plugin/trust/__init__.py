"""Decisions about a server's claims and its address; no I/O.

- `tool_claims`: what a tool's annotations count for: whether it may be run twice, what it does to data
- `use_changes`: which changes since the approval affect a use of a tool
- `tool_difference`: what differs between two versions of a tool, also as lines for people
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
