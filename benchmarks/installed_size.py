"""Measure the current environment: size and number of packages, without pip, setuptools and wheel.

`python benchmarks/installed_size.py --max-mb 90 --max-packages 45` exits 1 if a limit is exceeded.
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib.metadata import Distribution, distributions

_TOOLS = frozenset({"pip", "setuptools", "wheel"})


def measure() -> tuple[float, int]:
    """Return the size in MB (10^6 bytes) and the number of the installed packages."""
    packages = [package for package in distributions() if package.name not in _TOOLS]
    return sum(map(_bytes_of, packages)) / 1e6, len(packages)


def _bytes_of(package: Distribution) -> int:
    paths = [file.locate() for file in package.files or ()]
    return sum(path.stat().st_size for path in paths if path.exists())  # type: ignore[attr-defined]  # `locate` returns a `Path`, the stub says less


def main() -> int:
    """Print size and number as JSON; return 1 if a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--max-mb", type=float, default=float("inf"))
    parser.add_argument("--max-packages", type=float, default=float("inf"))
    limits = parser.parse_args()
    megabytes, packages = measure()
    print(json.dumps({"mb": round(megabytes, 1), "packages": packages}))
    return int(megabytes > limits.max_mb or packages > limits.max_packages)


if __name__ == "__main__":
    sys.exit(main())
