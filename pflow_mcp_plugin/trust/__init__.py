"""What was approved of a server, and decisions about what it claims.

- `launch_identity`: what identifies the launch of a server, for which approvals hold
- `pins`: what was approved of each server, and how what a sync found differs from it
- `tool_approval`: whether a tool may be used as it was last synced
- `tool_use`: whether a use of a tool fits it, also where it changed since it was approved
- `tool_difference`: what differs between two versions of a tool, or two lists of tools
- `tool_claims`: what a tool's annotations count for: whether it may be run twice, what it does to data
- `tool_checks`: what a person should look at in a server's tools; `hidden_text` and `name_index` are what
  it goes by
"""

__all__: list[str] = []
