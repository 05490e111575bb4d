"""Workflows written in Python; what `pflow workflow export-python` writes imports this, and it stays.

from pflow_mcp_plugin.script import Script
"""

from pflow_mcp_plugin.host.python_workflow import Script

__all__ = ["Script"]
