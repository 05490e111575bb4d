"""Measure inside pflow what its checks of approvals and pins cost: `approval_cost.py ARGS...`.

The cost is the time in which their modules are loaded and their functions run, each time they are called.
Standard error gets it as JSON: milliseconds, and the number of calls.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import FunctionType, ModuleType
from typing import Any

_CHECKS = {
    f"pflow_mcp_plugin.{name}"
    for name in (
        *("trust.tool_approval", "trust.launch_identity", "trust.pins", "trust.tool_use"),
        "discovery.lock_check",
    )
}
"""Modules that a program without approvals, pins and lock files would not have."""


class Meter:
    """Adds up the time in which something that is measured runs, and counts the calls; nested ones once."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.calls = 0
        self._inside = False

    def measured(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function so that its time is added."""

        def run(*args: Any, **options: Any) -> Any:
            if self._inside:
                return function(*args, **options)
            self._inside, begin = True, time.perf_counter()
            try:
                return function(*args, **options)
            finally:
                self.seconds += time.perf_counter() - begin
                self.calls += 1
                self._inside = False

        return run


class Finder(MetaPathFinder):
    """Measures the loading of the modules of the checks, and afterwards each call of their functions."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> ModuleSpec | None:
        """Find a module of the checks, with a loader that measures; leave any other to Python."""
        spec = PathFinder.find_spec(name, path) if name in _CHECKS else None
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = self._loading(spec.loader)  # type: ignore[method-assign]
        return spec

    def _loading(self, loader: Loader) -> Callable[[ModuleType], None]:
        load = self._meter.measured(loader.exec_module)

        def run(module: ModuleType) -> None:
            load(module)
            own = [it for it in vars(module).values() if getattr(it, "__module__", "") == module.__name__]
            for owner in (module, *(it for it in own if isinstance(it, type))):
                for key, each in list(vars(owner).items()):
                    is_ours = isinstance(each, FunctionType) and each.__module__ == module.__name__
                    if is_ours and not key.startswith("_"):
                        setattr(owner, key, self._meter.measured(each))

        return run


def main() -> None:
    """Run the command line, and print what the checks cost it."""
    meter = Meter()
    sys.meta_path.insert(0, Finder(meter))
    from pflow_mcp_plugin.__main__ import main as run_pflow

    code = run_pflow()
    gc.freeze()
    print(json.dumps({"ms": meter.seconds * 1000, "calls": meter.calls}), file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
