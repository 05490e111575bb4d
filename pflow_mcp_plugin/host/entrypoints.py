"""The entry points of installed distributions.

`importlib.metadata` finds them too, but importing it (with email, zipfile and socket) takes as long
as the rest of a short command. So this module reads the folders itself, and uses it only where
`sys.path` holds something other than folders.
"""

# ruff: noqa: PTH113, PTH118, PTH119, PTH123, PTH208 - pathlib takes three times as long for hundreds of folders

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

_METADATA_FOLDER = re.compile(r"(?P<name>.+?)(-.*)?\.(dist-info|egg-info)")
_PACKAGE = __name__.partition(".")[0]


class Distribution:
    """An installed distribution and its entry points.

    Args:
        folder: Its `.dist-info` folder, empty if it has none.
        entry_points: The content of its `entry_points.txt`.
        headers: The header lines of its metadata; read from `folder` when left out.
    """

    def __init__(self, folder: str, entry_points: str, headers: str = "") -> None:
        self.folder = folder
        self.entry_points = entry_points
        self._headers = headers

    @property
    def name(self) -> str:
        """The distribution's name, as spelled in its metadata."""
        return self._header("Name") or os.path.basename(self.folder).partition("-")[0]

    @property
    def version(self) -> str:
        """The distribution's version."""
        return self._header("Version")

    def _header(self, name: str) -> str:
        if not self._headers:
            names = ("METADATA", "PKG-INFO")
            texts = (_read(os.path.join(self.folder, it)) for it in names)
            self._headers = next(filter(None, texts), "").partition("\n\n")[0]
        found = re.search(rf"^{name}:(.*)$", self._headers, re.MULTILINE)
        return found[1].strip() if found else ""


class EntryPoint(NamedTuple):
    """An entry point: its name, the object reference (`module:attribute`) and the distribution."""

    name: str
    value: str
    distribution: Distribution

    @property
    def module(self) -> str:
        """The module that the entry point's object reference names."""
        return self.value.partition(":")[0].strip()

    def load(self) -> Any:
        """Import the entry point's object and return it; whatever the import raises passes through."""
        found: Any = import_module(self.module)
        attributes = self.value.partition(":")[2].partition("[")[0].strip()
        for attribute in filter(None, attributes.split(".")):
            found = getattr(found, attribute)
        return found


def entry_points(group: str) -> list[EntryPoint]:
    """Return the entry points of a group in all distributions, in the order of `sys.path`."""
    return [
        EntryPoint(name, value, distribution)
        for distribution in _distributions()
        if f"[{group}]" in distribution.entry_points
        for name, value in _section(distribution.entry_points, group)
    ]


@cache
def own_distribution() -> Distribution | None:
    """Return the distribution with this package's own entry points, None if it is not installed."""
    scripts = entry_points("console_scripts")
    return next((script.distribution for script in scripts if is_own_script(script)), None)


def is_own_script(script: EntryPoint) -> bool:
    """Whether the entry point of a console script names a module in this package."""
    return script.module.partition(".")[0] == _PACKAGE


def _distributions() -> Iterator[Distribution]:
    """Yield each distribution once: the first of its name on `sys.path`."""
    if any(os.path.isfile(place) or place.endswith(".egg") for place in sys.path):
        yield from _from_importlib()
        return
    seen: set[str] = set()
    for place in sys.path:
        for name in _listed(place or "."):
            match = _METADATA_FOLDER.fullmatch(name)
            # As the packaging specification normalises names: `My_Pkg` and `my-pkg` are the same.
            project = re.sub(r"[-_.]+", "-", match["name"]).lower() if match else ""
            if project and project not in seen:
                seen.add(project)
                folder = os.path.join(place or ".", name)
                yield Distribution(folder, _read(os.path.join(folder, "entry_points.txt")))


def _from_importlib() -> Iterator[Distribution]:
    from importlib import metadata

    seen: set[str] = set()
    for found in metadata.distributions():
        if found.name not in seen:
            seen.add(found.name)
            headers = f"Name: {found.name}\nVersion: {found.version}"
            yield Distribution("", found.read_text("entry_points.txt") or "", headers)


def _section(text: str, group: str) -> Iterator[tuple[str, str]]:
    inside = False
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            inside = line == f"[{group}]"
        elif inside and "=" in line and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            yield name.strip(), value.strip()


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:  # sys.path may name missing folders
        return []


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
