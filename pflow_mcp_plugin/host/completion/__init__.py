"""Completion of command lines in bash, zsh and fish.

- `shell_line`: a line as far as it is typed in bash, and a word as it is typed in fish, without quotes
- `shell_reply`: what a shell is told: the words, stems and files that may stand at the cursor
- `path_names`: the files and folders that a word may be the beginning of
- `scripts`: the scripts that connect the shells, kept beside it as `pflow.bash`, `pflow.zsh` and `pflow.fish`
- `installation`: puts a script where its shell finds it, and removes it

`cli/completion` answers the scripts: it finds out which command a line is for, and asks it.
"""
