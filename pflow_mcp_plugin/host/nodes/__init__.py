"""The host's own nodes.

- `own_nodes`: their registry entries. Start reading here.
- `value_nodes`, `file_nodes`, `shell`, `llm_node`: the classes.
- `node_arguments`: where they take their arguments from.
- `child_processes`: the processes that `shell` starts.
"""
