"""Drive the foreign host in a process where the embedded host can't be imported.

Reads a JSON list of actions from stdin, prints a JSON list of what came of each:
`["command", words...]`, `["entry", node type]`, `["run", workflow, inputs]`, `["check"]`.
"""

from __future__ import annotations

import json
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any


class NoEmbeddedHost(MetaPathFinder):
    """Refuses `pflow_mcp_plugin.host` and what is below it."""

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        if name == "pflow_mcp_plugin.host" or name.startswith("pflow_mcp_plugin.host."):
            raise ImportError(f"{name} is not for plugins")


def act(host: Any, action: list[Any]) -> Any:
    """Return what one action gives, as JSON; a failure as `{"error": ...}`."""
    from pflow_mcp_plugin import contract

    verb, *rest = action
    try:
        if verb == "command":
            report = host.command(rest)
            error = report.error.to_dict() if report.error else None
            return {"data": report.data, "text": report.render(), "error": error}
        if verb == "entry":
            return host.registry.get(*rest).to_dict()
        if verb == "check":
            return [problem.to_dict() for problem in host.check()]
        outcome = host.runner.run(*rest)
        if outcome.error is not None:
            raise outcome.error
        return {"outputs": dict(outcome.outputs), "annotations": host.runner.runs[-1].annotations}
    except contract.PflowError as error:
        return {"error": error.to_dict()}


def main() -> None:
    sys.meta_path.insert(0, NoEmbeddedHost())
    from foreign_host import ForeignHost

    actions = json.load(sys.stdin)
    with ForeignHost(Path(sys.argv[1])) as host:
        results = [act(host, action) for action in actions]
    json.dump({"results": results, "reported": host.reported}, sys.stdout)


if __name__ == "__main__":
    main()
