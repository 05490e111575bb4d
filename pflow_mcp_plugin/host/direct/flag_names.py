"""The names of a node's flags, and what kind of flag each is; apart, because completion needs no more."""

from __future__ import annotations

from pflow_mcp_plugin.contract import Entry, Field
from pflow_mcp_plugin.host.direct.link_words import OPTIONS, PARAM

_NONE = frozenset({"None", "null"})
_BOOL = frozenset({"bool", "boolean"})
_LIST = frozenset({"list", "array"})


class FlagNames:
    """The flags of a node by their names.

    Args:
        entry: The node's entry.

    Attributes:
        fields: The parameters by their keys.
        shown: Those that messages may name.
    """

    def __init__(self, entry: Entry) -> None:
        self.fields = entry.interface.fields
        self.shown = entry.interface.params

    def find(self, name: str) -> Field | None:
        """Return the parameter that a flag's name stands for, without its two hyphens; None if none does.

        Hyphens count as underscores; then case and separators are ignored if only one shown parameter fits.
        """
        for key in (name, name.replace("-", "_")):
            if key in self.fields:
                return self.fields[key]
        alike = [field.key for field in self.shown if folded(field.key) == folded(name)]
        return self.fields[alike[0]] if len(alike) == 1 else None


def flag_of(field: Field) -> str:
    """Return the flag of a node that sets a parameter, as it is shown."""
    return f"--{field.key.replace('_', '-')}"


def flag_with(field: Field, value: str) -> str:
    """Return how a parameter is set to a value; if its flag is an option of pflow, by its exact name."""
    flag = flag_of(field)
    return f"{PARAM} {field.key}={value}" if flag in OPTIONS else f"{flag} {value}"


def shown_flag(field: Field) -> str:
    """Return what a message calls a parameter: its flag, unless that is an option of pflow."""
    flag = flag_of(field)
    return f"{PARAM} {field.key}" if flag in OPTIONS else flag


def is_switch(field: Field) -> bool:
    """Return whether the flag of a node takes no value, because its parameter is true or false."""
    return _only(field, _BOOL)


def is_list(field: Field) -> bool:
    """Return whether the flag of a node may be repeated, because its parameter is a list."""
    return _only(field, _LIST)


def folded(name: str) -> str:
    """Return the name of a flag without case and separators."""
    return name.replace("-", "").replace("_", "").replace(".", "").lower()


def _only(field: Field, names: frozenset[str]) -> bool:
    """Return whether a type is one of these names, or None beside them."""
    kinds = {*field.types} - _NONE
    return bool(kinds) and kinds <= names
