"""The command line.

- `main`: the program: opens the host, runs a command, prints its report and returns the exit code
- `command_tree`: the commands of all plugins as one tree, each with `--json`; the code of a command is
  imported when it runs
- `output`: a report as text or as the JSON envelope
- `builtin_commands`: the host's own commands, announced through the same hook as any plugin's
- `run_commands`, `registry_commands`, `settings_commands`, `workflow_commands`, `trace_commands`,
  `plugins_command`, `config_commands`: the commands themselves
- `command_line_inputs`: inputs and params as they are typed or piped in
- `tables`: shared by several commands
"""
