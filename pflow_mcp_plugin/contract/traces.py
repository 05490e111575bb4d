"""The traces of earlier runs that a host keeps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from pflow_mcp_plugin.contract.json_types import JSONObject


class Traces(ABC):
    """Base class of any host's traces of earlier runs."""

    @abstractmethod
    def paths(self) -> Sequence[Path]:
        """Any host's traces: return the trace files, newest first."""

    @abstractmethod
    def find(self, run: str = "latest", *, owner: str | None = None) -> Path:
        """Any host's traces: return the trace of a run, by its id, the beginning of one, or `latest`.

        Args:
            run: The run. A path to one of the host's trace files stands for that file.
            owner: Only runs of this owner (see `RunOrigin`); of all by default.

        Raises:
            PflowError: Kind `not_found`: no run matches, or several do.
        """

    @abstractmethod
    def read(self, path: Path) -> JSONObject:
        """Any host's traces: return the `run_id`, `owner`, `success`, `error`, `steps` and more of one.

        Raises:
            PflowError: It cannot be read, or is not a trace.
        """
