"""What fits a task in words: shared by the discovery of nodes and of saved workflows.

- `task_words`: splits a task into clauses and words; `thesaurus.txt` maps what people say to what tools
  call it
- `name_parts`: the words inside names such as `createIssue`
- `task_fit`: how well something fits a task: a degree, and the words behind it
- `confidence`: how likely what fits to such a degree is right
- `workflow_match`: the saved workflows that fit a task
- `sentence_model`: what texts mean, as numbers, if the extra `[semantic]` is installed
- `model_ranking`: asks a language model for the order, if the user has chosen one
"""
