"""Whether two JSON values are the same."""

from __future__ import annotations

import json


def canonical(value: object) -> str:
    """Return a text that is the same for the same JSON values: keys sorted, no spaces, ASCII only."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
