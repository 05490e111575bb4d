"""`Script`, a workflow written in Python; programs from `pflow workflow export-python` import it from here.

from pflow_mcp_plugin.script import Script
"""

from pflow_mcp_plugin.host.python_workflow import Script

__all__ = ["Script"]
