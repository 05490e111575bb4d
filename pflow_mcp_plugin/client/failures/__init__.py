"""Failures translated into our error tree. No other room does so.

A failure is explained from evidence: what the transport noticed, how the process ended, how the
request failed. The SDK's own messages come last, because they are the least specific.

- `explanation`: gathers the evidence of one connection when something fails, and examines it in order; the
  causes at the server
- `evidence`: what is known about a failure, the excerpt of stderr, and the error built from both
- `http_failures`: the causes on the way to a server over HTTP
"""

from pflow_mcp_plugin.client.failures.evidence import Evidence
from pflow_mcp_plugin.client.failures.explanation import explain, fit_to_show, run_sign_in

__all__ = ["Evidence", "explain", "fit_to_show", "run_sign_in"]
