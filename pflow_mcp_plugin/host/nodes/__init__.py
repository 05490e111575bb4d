"""The host's own nodes.

- `own_nodes`: their registry entries. Start reading here.
- `value_nodes`, `file_nodes`, `shell`, `llm_node`: the classes, and what they share.
"""
