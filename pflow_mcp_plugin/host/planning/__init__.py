"""Plans workflows from tasks in words. Nothing here runs a node or starts a server.

- `planner`: finds a saved workflow, or has a model or the words of the task make one. Start reading here.
- `plan`: a plan: the workflow, why it looks as it does, and what is still wrong with it; nothing in it may
  come from the description of a node
- `offline_plan`: a plan from words alone; `joins`: which output fits which parameter
- `plan_prompt`: what a language model is sent; `plan_answer`: what it answers
- `plan_repair`: what needs no model: declared inputs, mappings
"""
