"""Measures the performance budgets: `python -m benchmarks` prints the table.

- `bare_sdk`: the shortest script that makes the same calls with the SDK alone.
- `bare_parallel`: the same with calls in parallel.
- `warm_calls`: calls on a warm connection, ours and the SDK's, in one process.
- `many_tools`: a server with a given number of tools; `plain_server`: a server without the SDK.
- `served_calls`: calls of a served tool, pflow's and those of `bare_server`, with the same client.
- `first_list`: the time from a server's start to its list of tools.
- `long_line`: reads a result in one long line.
- `own_memory`: runs pflow and prints its peak memory.
- `installed_size`: size and number of the installed packages.
- `paired_runs`: runs two commands in turn and compares them.
- `budgets`: the budgets, one line of the table each.
- `discover`: recall of `registry discover`; run it with `python -m benchmarks.discover`.
- `plan`: what plans without a language model are worth; run it with `python -m benchmarks.plan`.
"""
