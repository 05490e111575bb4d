"""Write the dependencies of pyproject.toml as a requirements file, at their lowest or without some."""

from __future__ import annotations

import argparse
import re
import tomllib
from pathlib import Path

_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?P<extras>\[[a-z,]+\])?>=(?P<lowest>[0-9.]+)")
_PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"


def requirements(*, lowest: bool = False, without: frozenset[str] = frozenset()) -> list[str]:
    """Return the package's own requirements, one a line.

    Raises:
        SystemExit: A requirement names no lowest version.
    """
    declared = tomllib.loads(_PYPROJECT.read_text(encoding="utf-8"))["project"]["dependencies"]
    lines = []
    for requirement in declared:
        match = _REQUIREMENT.match(requirement)
        if match is None:
            raise SystemExit(f"{requirement!r} in pyproject.toml names no lowest version (write name>=1.2)")
        if match["name"] not in without:
            lines.append(
                f"{match['name']}{match['extras'] or ''}=={match['lowest']}" if lowest else requirement
            )
    return lines


def main() -> None:
    """Write the file that the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lowest", action="store_true", help="pin each to the lowest version declared")
    parser.add_argument("--without", nargs="+", default=[], metavar="NAME", help="leave these out")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    lines = requirements(lowest=options.lowest, without=frozenset(options.without))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
