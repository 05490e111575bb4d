"""Plans workflows from tasks in words. Nothing here runs a node or starts a server.

- `planner`: finds a saved workflow, or makes one with a model or from the words of the task. Start reading
  here.
- `plan`: a plan: the workflow, the reasons for it, and what is still wrong with it; no value in it may come
  from the description of a node
- `offline_plan`: a plan from words alone; `joins`: which output fits which parameter
- `plan_prompt`: what is sent to a language model; `plan_answer`: what it answers
- `plan_repair`: repairs that need no model: declared inputs, mappings
"""
