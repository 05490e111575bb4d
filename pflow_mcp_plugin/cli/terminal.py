"""Whether a person can be asked."""

from __future__ import annotations

import sys


def is_interactive() -> bool:
    """Whether the user can be asked: not if any standard stream is redirected."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return all(stream is not None and stream.isatty() for stream in streams)
