"""Words that people type for commands with another name."""

from __future__ import annotations

from collections.abc import Iterable

_GROUPS = (
    "remove rm delete del unset clear clean uninstall forget drop prune erase",
    "show info describe view get cat inspect print display details explain last latest",
    "list ls all show status ps",
    "list servers",
    "disable stop off pause",
    "enable on resume",
    "run exec execute start launch call invoke do go",
    "validate check lint verify test",
    "add new create install register make init save set put",
    "sync refresh update upgrade reload fetch pull",
    "test ping doctor check probe status health",
    "search find grep discover lookup query",
    "login signin sign-in authenticate auth",
    "logout signout sign-out",
    "serve server daemon",
    "settings setting config configure env secrets",
    "trace traces history runs logs log",
    "workflow workflows flow flows",
    "registry nodes node types",
    "export dump",
    "approve trust accept allow",
    "edit open change modify rename move",
    "view open",
    "path where show list",
    "plan ask generate",
    "graph draw diagram",
    "tools nodes functions actions",
    "presets preset catalog marketplace",
)
_MOST = 3


def same_meaning(word: str, commands: Iterable[str]) -> list[str]:
    """Return the commands that a word may stand for, the likeliest first.

    Args:
        word: What was typed.
        commands: The names of the commands there are.
    """
    typed, known = word.lower(), list(commands)
    groups = [group.split() for group in _GROUPS]
    meant = [other for group in groups if typed in group for other in group if other in known]
    return list(dict.fromkeys(meant))[:_MOST]
