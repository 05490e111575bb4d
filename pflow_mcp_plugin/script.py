"""Workflows written in Python; programs from `pflow workflow export-python` import this stable module.

from pflow_mcp_plugin.script import Script
"""

from pflow_mcp_plugin.host.python_workflow import Script

__all__ = ["Script"]
