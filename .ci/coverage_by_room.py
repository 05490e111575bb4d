"""Print how much of each room the tests run, from the report of `coverage json`, against a floor."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path


def rooms(report: Path) -> dict[str, float]:
    """Return the percentage of lines and branches that ran, by room; modules beside rooms count as one."""
    known: Counter[str] = Counter()
    ran: Counter[str] = Counter()
    for name, file in json.loads(report.read_bytes())["files"].items():
        inner = Path(name).parts[Path(name).parts.index("pflow_mcp_plugin") + 1 :]
        room = "/".join(inner[: 2 if inner[0] == "host" else 1][: len(inner) - 1]) or "."
        summary = file["summary"]
        known[room] += summary["num_statements"] + summary["num_branches"]
        ran[room] += summary["covered_lines"] + summary["covered_branches"]
    return {room: 100 * ran[room] / count for room, count in sorted(known.items()) if count}


def main() -> int:
    """Print the table; return 1 if a room is below the floor."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path)
    parser.add_argument("--floor", type=float, required=True, help="the least percentage for any room")
    options = parser.parse_args()
    found = rooms(options.report)
    for room, percentage in found.items():
        print(f"{percentage:6.1f} %  {room}{'  below the floor' if percentage < options.floor else ''}")
    return int(min(found.values()) < options.floor)


if __name__ == "__main__":
    sys.exit(main())
