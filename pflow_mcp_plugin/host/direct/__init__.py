"""Nodes run from the command line, each with its flags, `then` between them.

- `direct_run`: runs, saves or shows a chain of nodes, or reports all that is wrong with it. Start reading
  here.
- `link_words`: words as typed to links, one for each node, and pflow's own options.
- `node_flags`: the flags of one node as values, by the node's interface.
- `chain_workflow`: links to a workflow.
- `chain_completion`: what may come next in a line, for completion in shells.
"""
