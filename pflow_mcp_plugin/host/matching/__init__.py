"""What fits a task in words: shared by the discovery of nodes and of saved workflows.

- `task_words`: splits a task into clauses and words, which it reduces to roots; `thesaurus.txt` maps what
  people say to what tools call it
- `task_fit`: how well something fits a task, the words behind it, and how likely it is right
- `sentence_model`: what texts mean, as numbers, if the extra `[semantic]` is installed
- `model_ranking`: asks a language model for the order, if the user has chosen one
"""
