"""The settings that a host keeps for its user."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from pflow_mcp_plugin.contract.problems import PflowError


class Settings(ABC):
    """Base class of any host's settings: the user's saved keys and values, e.g. tokens."""

    @abstractmethod
    def get(self, key: str) -> str | None:
        """Any host's settings: return a value, or None if it is not set."""

    def names(self) -> Mapping[str, str]:
        """Any host's settings: return every key, with a word for where its value is stored, such as `file`.

        Empty by default: the host does not list its settings.
        """
        return {}

    def fingerprint(self) -> str:
        """Any host's settings: return a text that changes when a setting is saved, changed or deleted.

        Empty by default: the host cannot tell without reading them.
        """
        return ""

    def set(self, key: str, value: str) -> None:
        """Any host's settings: save a value.

        Raises:
            PflowError: Kind `usage` if `key` is invalid; or the value cannot be saved. Always raised by
                default.
        """
        raise PflowError(f"{key} cannot be set: this pflow does not save settings", kind="usage")

    def unset(self, key: str) -> bool:
        """Any host's settings: delete a value; return whether it was set. By default, False."""
        return False
