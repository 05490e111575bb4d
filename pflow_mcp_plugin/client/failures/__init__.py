"""What went wrong, translated into our error tree. The one place that does so.

A failure is explained from evidence: what the transport noticed, how the process ended, how the
request failed; the SDK's own words come last, for they name the least.

- `explainer`: gathers the evidence on one connection when something fails
- `evidence`: what is known then, and the error made of it
- `translation`: which evidence is looked at first; deadlines
- `exits`, `network`, `http_status`, `socket_errors`, `json_rpc`: one kind of cause each
- `excerpt`: the part of stderr that is shown
"""

from pflow_mcp_plugin.client.failures.evidence import Evidence
from pflow_mcp_plugin.client.failures.translation import explain, fit_to_show

__all__ = ["Evidence", "explain", "fit_to_show"]
