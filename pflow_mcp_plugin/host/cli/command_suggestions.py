"""Suggestions for a word that names no command: the commands that may be meant."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import click

from pflow_mcp_plugin.terminal.similar_names import closest

_MOST = 5
_SHOW = "show"
"""The meaning of the command to suggest for a word that names, say, a saved workflow."""

Takes = Callable[[str, click.Command, str], bool]
"""Returns whether a command, given its words and itself, knows a word as its first argument."""


def meant_commands(ctx: click.Context, words: Sequence[str], takes: Takes) -> list[str]:
    """Return the commands to suggest for words that name no command, as they are typed, the likeliest first.

    `words` begins with the word that names no command of the branch. Commands that know the next word, such
    as the name of a saved workflow, win. A command of exactly this name outside the branch comes before those
    in it that are only spelled alike.
    """
    branch, path, word = ctx.command, ctx.command_path, words[0]
    commands = _visible(branch)
    meant = same_meaning(word, commands)

    begun, _, rest = word.partition("-")
    joined = [begun] if begun in commands else []
    if begun in commands and isinstance(commands[begun], click.Group):
        joined = [f"{begun} {rest}"] if rest in _visible(commands[begun]) else []
    close = closest(word, commands)
    # A group is also known by what its help says it is about, such as servers.
    about = [
        name
        for name, it in commands.items()
        if isinstance(it, click.Group) and word in re.findall(r"\w{4,}", it.help or "")
    ]
    here = meant or about or joined or close
    inner = {name: _visible(child) for name, child in commands.items()}
    named = [f"{name} {word}" for name, children in inner.items() if word in children]
    alike = [
        f"{name} {other}" for name, children in inner.items() for other in same_meaning(word, children)[:1]
    ]
    if len(words) > 1:
        known = dict.fromkeys([*here, *named, *alike])
        found = (
            f"{path} {it} {words[1]}" for it in known if takes(f"{path} {it}", _at(branch, it), words[1])
        )
        if first := list(found)[:_MOST]:
            return first
    # The word may be the name of something that a command shows.
    if shown := [it for it in same_meaning(_SHOW, commands) if takes(f"{path} {it}", commands[it], word)]:
        return [f"{path} {shown[0]} {word}"]
    visible = [it for it in branch.params if not getattr(it, "hidden", False)]
    options = [f"--{word}"] if any(f"--{word}" in it.opts for it in visible) else []
    inside = [f"{path} {it}" for it in [*named, *here, *options] or alike]
    beside = list(_beside(ctx, word, is_known=bool(here)))

    return list(dict.fromkeys([*inside, *beside] if meant else [*beside, *inside]))[:_MOST]


def _visible(command: click.Command) -> Mapping[str, click.Command]:
    known = command.commands if isinstance(command, click.Group) else {}
    return {name: it for name, it in known.items() if not it.hidden}


def _beside(ctx: click.Context, word: str, *, is_known: bool) -> Iterator[str]:
    """Yield commands to suggest from beside a branch: of the same name or meaning, or of a similar group."""
    root = ctx.find_root()
    if root is ctx:
        return
    outer = _visible(root.command)
    if word in outer:
        yield f"{root.command_path} {word}"
        return
    if is_known:
        return
    groups = [name for name in same_meaning(str(ctx.command.name), outer) if name != ctx.command.name]
    yield from (f"{root.command_path} {name} {word}" for name in groups if word in _visible(outer[name]))
    leaves = [name for name, it in outer.items() if not isinstance(it, click.Group)]
    yield from (f"{root.command_path} {name}" for name in same_meaning(word, leaves)[:1])


def _at(branch: click.Command, path: str) -> click.Command:
    for word in path.split():
        branch = _visible(branch)[word]
    return branch


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


def same_meaning(word: str, commands: Iterable[str]) -> list[str]:
    """Return the commands to suggest for a word with the same meaning, the likeliest first."""
    typed, known = word.lower(), list(commands)
    groups = [group.split() for group in _GROUPS]
    meant = [other for group in groups if typed in group for other in group if other in known]
    return list(dict.fromkeys(meant))[:3]
