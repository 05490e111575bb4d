"""Completion of command lines in bash, zsh and fish.

- `shell_reply`: what a shell sends, and the reply with what may come at the cursor
- `installation`: puts the scripts, `pflow.bash`, `pflow.zsh` and `pflow.fish`, where the shells read them

`cli/completion` answers the scripts: it finds out which command a line is for, and asks that command.
"""
