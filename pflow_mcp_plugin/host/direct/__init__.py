"""Nodes run from the command line, each with its flags, `then` between them.

- `direct_run`: runs, saves or shows a chain of nodes; `DirectRun`. Start reading here.
- `link_words`: words as typed to links, one for each node, and pflow's own options.
- `flag_names`: how flags are named, and which take no value.
- `node_flags`: the flags of one node to values, by the node's interface.
- `flag_files`: files that are the value of a flag.
- `chain_links`: links with their node types and values; what is wrong with a line, all at once.
- `chain_workflow`: links to a workflow.
- `shell_redirection`: an unquoted `>>`, which the shell took for itself.
- `node_help`: the help of a node.
- `chain_completion`: what may follow in a line, for completion in shells.
"""
