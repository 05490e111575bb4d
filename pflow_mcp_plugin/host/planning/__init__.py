"""Plans workflows from tasks in words. Nothing here runs a node or starts a server.

- `plan`: a plan: the workflow, why it looks as it does, and what is still wrong with it
"""
