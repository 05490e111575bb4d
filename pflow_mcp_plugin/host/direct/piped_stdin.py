"""What is piped into a chain of nodes."""

from __future__ import annotations

import sys

from pflow_mcp_plugin.host.standard_input import input_text
from pflow_mcp_plugin.host.standard_streams import is_terminal


def piped_text() -> str:
    """Return what is piped into a chain; empty if nothing is. A terminal is never read."""
    return "" if sys.stdin is None or is_terminal(sys.stdin) else input_text()
