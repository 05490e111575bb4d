"""The host on trial, as the conformance checks see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

import attrs

from pflow_mcp_plugin.contract.hosts import Host


class Subject(Protocol):
    """An open host on trial, as the conformance checks use it."""

    host: Host

    def warnings(self) -> str:
        """Return all warnings that the host on trial has shown to the user so far."""
        ...

    def command(self, words: Sequence[str]) -> tuple[int, Mapping[str, Any]]:
        """Run a command line of the host on trial with `--json`; return the exit code and the envelope."""
        ...


Open = Callable[[Mapping[str, object], Path], AbstractContextManager[Subject]]
"""Opens the host on trial with these plugins, by name and in this order, and folders below the given one."""


@attrs.frozen
class Trial:
    """The trial of a host in one conformance check: how to open it, and in which folder.

    Attributes:
        opener: Opens the host.
        home: An empty folder, the host's own for this check.
    """

    opener: Open
    home: Path

    @contextmanager
    def open(self, **plugins: object) -> Iterator[Subject]:
        """Open the host on trial with these plugins, in this order."""
        with self.opener(plugins, self.home) as subject:
            yield subject


Check = Callable[[Trial], None]
