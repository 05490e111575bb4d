"""Runs pflow with the given arguments, and prints its peak memory in MB to stderr.

`python benchmarks/own_memory.py ARGUMENTS...`; servers are separate processes and are not included.
"""

import resource
import sys

from pflow_mcp_plugin.__main__ import main

_MB = 1_000_000

sys.argv[0] = "pflow"
code = main()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / _MB, file=sys.stderr)
sys.exit(code)
