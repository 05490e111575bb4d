"""What went wrong, translated into our error tree. The one place that does so.

A failure is explained from evidence: what the transport noticed, how the process ended, what the
HTTP exchange saw; the SDK's own words come last, for they name the least.

- `evidence`: what is known when something fails, and the error made of it
- `excerpt`: the part of stderr that is shown
- `explaining`: which evidence is looked at first; deadlines
- `process`, `network`, `status`, `rpc`: one kind of cause each
"""

from pflow_mcp_plugin.client.failures.evidence import Evidence, causes, in_words, leaves
from pflow_mcp_plugin.client.failures.explaining import explain, fit_to_show

__all__ = ["Evidence", "causes", "explain", "fit_to_show", "in_words", "leaves"]
