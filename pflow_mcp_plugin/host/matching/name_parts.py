"""The words inside names, for the index of nodes and for what fits a task."""

from __future__ import annotations

import re

_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[-_]")


def split_name(name: str) -> str:
    """Return a name as words: `createIssue`, `create-issue` and `create_issue` have two each."""
    return _BOUNDARY.sub(" ", name)
