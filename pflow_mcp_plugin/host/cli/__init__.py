"""The command line.

- `command_line`: the commands of all plugins as one tree, each with `--json`; the code of a command is
  imported when it runs. `main` opens the host, runs a command, prints its report and returns the exit code
- `command_suggestions`: suggestions for a word that names no command
- `output`: a report as text or as the JSON envelope
- `builtin_commands`: the host's own commands, announced through the same hook as any plugin's
- `run_commands`, `resume_command`, `registry_commands`, `workflow_commands`, `trace_commands`,
  `config_commands`, `plan_command`: the commands themselves
- `command_parameters`, `command_line_inputs`: options and arguments shared by several commands
- `completion`: what may follow on a command line
"""
