"""The expression language of conditions and of `transform`: JMESPath, with limits and a few functions.

Importing this room imports jmespath, so the rest of the host imports it only where a workflow has an
expression.

- `functions`: every function beyond those of JMESPath, and what each returns.
- `arithmetic`, `dates`: operators between numbers; texts that are dates.
- `expression`: text to a syntax tree, where mistakes have a position, and its evaluation within limits on
  work and size. It reads values and nothing else. Start reading here.
- `shapes`: what is known before a run: which values an expression reads, and what type it has.
"""

from pflow_mcp_plugin.host.workflow.expressions.expression import Expression, is_true, parsed
from pflow_mcp_plugin.host.workflow.expressions.functions import Secrets

__all__ = ["Expression", "Secrets", "is_true", "parsed"]
