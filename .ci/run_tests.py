"""Run pytest; with $PYTEST_REPEAT set, run the tests that failed once more, one at a time.

What a test waits for may come too late on a busy machine. A test that passes when it runs alone is listed
as REPEATED; the outcome is that of the repetition. More than a few failures are never repeated.

A plugin that repeats a test within its session would run it without the bound that pytest-timeout sets.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

_FEW = 5
_FAILED = 1
"""The exit code of pytest when tests failed, and nothing else was wrong."""


def main(arguments: list[str]) -> int:
    """Run pytest with these arguments and return its exit code."""
    with TemporaryDirectory() as folder:
        cache = ["--override-ini", f"cache_dir={folder}"]
        code = _pytest([*cache, *arguments])
        if code != _FAILED or not os.environ.get("PYTEST_REPEAT"):
            return code
        failed = _last_failed(Path(folder))
        if not 0 < len(failed) <= _FEW:
            return code
        code = _pytest([*cache, *arguments, "-n", "0", "--last-failed", "--last-failed-no-failures", "none"])
        if code == 0:
            print(*(f"REPEATED {name}" for name in failed), sep="\n")
        return code


def _pytest(arguments: list[str]) -> int:
    # Not `python -m pytest`, which would test the checkout in place of the installed package.
    program = shutil.which("pytest", path=str(Path(sys.executable).parent)) or "pytest"
    return subprocess.run([program, *arguments], check=False).returncode  # noqa: S603 - our own arguments


def _last_failed(cache: Path) -> list[str]:
    file = cache / "v" / "cache" / "lastfailed"
    return list(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
