"""What the system may refuse: a user without privileges, a limit on the size of files, a small disk."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_NOBODY = 65534


@contextmanager
def ordinary_user() -> Iterator[tuple[int, int]]:
    """Be a user without privileges, as far as files go; yields the ids of the user and of the group."""
    before = os.geteuid(), os.getegid()
    if before[0] == 0:
        os.setegid(_NOBODY)
        os.seteuid(_NOBODY)
    try:
        yield os.geteuid(), os.getegid()
    finally:
        os.seteuid(before[0])
        os.setegid(before[1])


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Have files that this process writes grow to some bytes only."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def run_where_mounted(
    mount: str, place: Path, code: str, *arguments: object, user: bool = True
) -> tuple[str, str]:
    """Run code in Python with its arguments where something is mounted; return what it wrote.

    Args:
        mount: A line for a shell, whose `$0` is `place`.
        place: Where to mount.
        code: What to run.
        arguments: Those of the code.
        user: Whether to be root there as any user may be.
    """
    options = ["--map-root-user"] if user else []
    command = ["unshare", *options, "--mount", "sh", "-c", f'{mount} && exec "$@"', str(place)]
    if subprocess.run([*command, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this system lets nobody mount it")
    command += [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, done.stderr
