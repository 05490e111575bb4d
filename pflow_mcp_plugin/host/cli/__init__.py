"""The command line.

- `main`: the program: open the host, run a command, print what it reports, say how it went
- `tree`: the commands of all plugins as one tree; what a command runs is imported when it runs
- `output`: a report as text or as the JSON envelope
- `builtin`: the host's own commands, announced through the same hook as any plugin's
- `run`, `registry`, `settings`, `workflow`, `trace`, `plugins`, `config`: what those do
- `tables`, `options`, `inputs`: what they share
"""
