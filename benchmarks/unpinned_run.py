"""Run pflow with the checks of approvals or without them: `unpinned_run.py yes|no ARGS...`."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

from pflow_mcp_plugin import discovery
from pflow_mcp_plugin.__main__ import main

if sys.argv.pop(1) == "no":
    # In place of the module, so that what it imports is not loaded either.
    checks: Any = SimpleNamespace(
        withheld=lambda *_: None, launch_changed=lambda *_: None, fingerprint=lambda *_: ""
    )
    sys.modules["pflow_mcp_plugin.discovery.tool_approval"] = checks
    discovery.tool_approval = checks  # type: ignore[attr-defined]

sys.argv[0] = "pflow"
main()
