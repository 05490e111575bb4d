"""What the budgets are measured with: `python -m benchmarks` prints the table.

- `bare_sdk`: the shortest script that makes the same calls with the SDK alone.
- `many_tools`: a server with as many tools as are asked for.
- `installed_size`: how much an environment holds.
- `pairs`: runs two commands in turn and compares them.
- `lines`: the budgets, one line of the table each.
- `discover`: recall of `registry discover`, by itself: `python -m benchmarks.discover`.
"""
