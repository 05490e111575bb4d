"""Failures translated into our error tree. No other room does so.

A failure is explained from evidence: what the transport noticed, how the process ended, how the
request failed. The SDK's own messages come last, because they are the least specific.

- `explainer`: gathers the evidence of one connection when something fails
- `evidence`: what is known about a failure, and the error built from it
- `translation`: the order in which evidence is examined; deadlines
- `process_failures`, `network`, `sign_in`, `http_status`, `socket_errors`, `json_rpc`: one kind of cause each
- `excerpt`: the part of stderr that is shown
"""

from pflow_mcp_plugin.client.failures.evidence import Evidence
from pflow_mcp_plugin.client.failures.translation import explain, fit_to_show

__all__ = ["Evidence", "explain", "fit_to_show"]
