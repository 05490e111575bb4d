"""Stands for npx and uvx in tests: starts a server that is installed beside this file.

    package_runner.py npx -y NAME[@VERSION] ARGS...
    package_runner.py uvx [--with=NAME==VERSION] NAME[@VERSION] ARGS...

A version other than the installed one is refused, so that presets and tests name the same.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import real_servers


def main(runner: str, *words: str) -> None:
    """Become the server; exit with 127 if it is not installed."""
    rest = list(words)
    while rest and rest[0].startswith("-"):
        rest.pop(0)
    name, _, version = rest[0][1:].partition("@")
    name = rest[0][0] + name  # the first @ of @scope/name is part of it
    try:
        if runner == "npx":
            command = [shutil.which("node") or "node", str(real_servers.npm_program(name, version))]
        else:
            command = [str(real_servers.python_program(name, version))]
    except LookupError as error:
        sys.exit(f"{runner}: {error}")
    os.execv(command[0], [*command, *rest[1:]])


if __name__ == "__main__":
    main(*sys.argv[1:])
