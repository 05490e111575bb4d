"""The host's own nodes.

- `own_nodes`: their registry entries. Start reading here.
- `echo`, `file_nodes`, `shell`, `llm_node`, `branch`, `transform`: the classes.
- `expression_values`: the values that expressions of the last two are evaluated on.
- `node_arguments`: where they take their arguments from.
- `child_processes`: the processes that `shell` starts.
"""
