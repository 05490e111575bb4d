"""Completion of command lines in bash, zsh and fish.

- `shell_reply`: what a shell sends, and what it is told may stand at the cursor
- `installation`: puts the scripts, `pflow.bash`, `pflow.zsh` and `pflow.fish`, where their shells read them

`cli/completion` answers the scripts: it finds out which command a line is for, and asks it.
"""
