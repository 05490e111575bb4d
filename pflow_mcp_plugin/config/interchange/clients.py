"""The clients whose config files are read and written: where each file is, and its format.

The formats were checked against the clients' documentation of November 2026.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import attrs

from pflow_mcp_plugin.config.document_text import Form
from pflow_mcp_plugin.config.field_checks import nearest
from pflow_mcp_plugin.config.interchange import client_formats as formats
from pflow_mcp_plugin.config.interchange.server_translation import ServerFormat
from pflow_mcp_plugin.contract import PflowError

System = Literal["linux", "macos", "windows"]


@attrs.frozen
class ConfigFile:
    """A place where one of the known clients may keep its config, and the systems that have it there.

    A path begins with `~` (the home folder), `$NAME` (a folder in a variable; skipped if it is unset), or is
    relative to the current folder.
    """

    path: str
    systems: tuple[System, ...] = ("linux", "macos", "windows")
    read_only: bool = False  # it is not written: the client now prefers another place

    @property
    def is_project(self) -> bool:
        """Whether a client's config file belongs to a project: the current folder."""
        return not self.path.startswith(("~", "$"))


@attrs.frozen(kw_only=True)
class Client:
    """A client whose config files we know, or a format that several clients share."""

    name: str  # on the command line
    title: str  # for people
    format: ServerFormat
    files: tuple[ConfigFile, ...] = ()  # the first that fits the system is the user's
    # Keys under which its servers are; `*` for any key. The first place is written.
    places: tuple[tuple[str, ...], ...] = (("mcpServers",),)
    form: Form = "json"


def _in_app_folder(path: str, *, read_only: bool = False) -> tuple[ConfigFile, ...]:
    return (
        ConfigFile(f"$XDG_CONFIG_HOME/{path}", ("linux",), read_only),
        ConfigFile(f"~/.config/{path}", ("linux",), read_only),
        ConfigFile(f"~/Library/Application Support/{path}", ("macos",), read_only),
        ConfigFile(f"$APPDATA/{path}", ("windows",), read_only),
    )


def _in_config_folder(path: str, windows: str) -> tuple[ConfigFile, ...]:
    return (
        ConfigFile(f"$XDG_CONFIG_HOME/{path}", ("linux", "macos")),
        ConfigFile(f"~/.config/{path}", ("linux", "macos")),
        ConfigFile(windows, ("windows",)),
    )


CLIENTS: Mapping[str, Client] = {
    client.name: client
    for client in (
        Client(
            name="claude-desktop",
            title="Claude Desktop",
            format=formats.CLAUDE_DESKTOP,
            files=_in_app_folder("Claude/claude_desktop_config.json"),
        ),
        Client(
            name="claude-code",
            title="Claude Code",
            format=formats.CLAUDE_CODE,
            files=(ConfigFile("~/.claude.json"), ConfigFile(".mcp.json")),
            places=(("mcpServers",), ("projects", "*", "mcpServers")),
        ),
        Client(
            name="cursor",
            title="Cursor",
            format=formats.CURSOR,
            files=(ConfigFile("~/.cursor/mcp.json"), ConfigFile(".cursor/mcp.json")),
        ),
        Client(
            name="vscode",
            title="VS Code",
            format=formats.VSCODE,
            files=(
                *_in_app_folder("Code/User/mcp.json"),
                *_in_app_folder("Code/User/settings.json", read_only=True),
                ConfigFile(".vscode/mcp.json"),
                ConfigFile(".vscode/settings.json", read_only=True),
            ),
            places=(("servers",), ("mcp", "servers")),
        ),
        Client(
            name="windsurf",
            title="Windsurf",
            format=formats.WINDSURF,
            files=(ConfigFile("~/.codeium/windsurf/mcp_config.json"),),
        ),
        Client(
            name="zed",
            title="Zed",
            format=formats.ZED,
            files=(
                *_in_config_folder("zed/settings.json", "$APPDATA/Zed/settings.json"),
                ConfigFile(".zed/settings.json"),
            ),
            places=(("context_servers",),),
        ),
        Client(
            name="codex",
            title="Codex",
            format=formats.CODEX,
            files=(
                ConfigFile("$CODEX_HOME/config.toml"),
                ConfigFile("~/.codex/config.toml"),
                ConfigFile(".codex/config.toml"),
            ),
            places=(("mcp_servers",),),
            form="toml",
        ),
        Client(
            name="gemini-cli",
            title="Gemini CLI",
            format=formats.GEMINI_CLI,
            files=(ConfigFile("~/.gemini/settings.json"), ConfigFile(".gemini/settings.json")),
        ),
        Client(
            name="opencode",
            title="OpenCode",
            format=formats.OPENCODE,
            files=(
                *_in_config_folder("opencode/opencode.json", "~/.config/opencode/opencode.json"),
                *_in_config_folder("opencode/opencode.jsonc", "~/.config/opencode/opencode.jsonc"),
                ConfigFile("opencode.json"),
                ConfigFile("opencode.jsonc"),
            ),
            places=(("mcp",), ("mcp", "servers")),
        ),
        Client(
            name="goose",
            title="Goose",
            format=formats.GOOSE,
            files=_in_config_folder("goose/config.yaml", "$APPDATA/Block/goose/config/config.yaml"),
            places=(("extensions",),),
            form="yaml",
        ),
        Client(
            name="lm-studio",
            title="LM Studio",
            format=formats.LM_STUDIO,
            files=(ConfigFile("~/.lmstudio/mcp.json"), ConfigFile("~/.cache/lm-studio/mcp.json")),
        ),
        Client(
            name="pflow-cli",
            title="pflow-cli",
            format=formats.PFLOW_CLI,
            files=(ConfigFile("~/.pflow/mcp-servers.json"),),
            places=(("mcpServers",), ("servers",)),
        ),
        Client(name="mcp-json", title="mcpServers JSON", format=formats.MCP_JSON),
    )
}


def client(name: str) -> Client:
    """Return a client by its name, or by another name that people use for it."""
    known = "gemini-cli" if name == "gemini" else name
    if known in CLIENTS:
        return CLIENTS[known]
    near = nearest(name, CLIENTS)
    step = f"Did you mean {near}?" if near else f"Known: {', '.join(CLIENTS)}"
    raise PflowError(f"Unknown client {name}", suggestions=(step,), kind="usage")


@attrs.frozen(kw_only=True)
class Machine:
    """What decides where clients keep their config files on a machine."""

    system: System
    home: Path
    folder: Path
    variables: Mapping[str, str]


def this_machine() -> Machine:
    """Return what decides where clients keep their config files on this machine."""
    system: System = {"darwin": "macos", "win32": "windows"}.get(sys.platform, "linux")  # type: ignore[assignment]
    home = Path.home()
    try:
        folder = Path.cwd()
    except FileNotFoundError:  # it was deleted: there is no project
        folder = home
    return Machine(system=system, home=home, folder=folder, variables=os.environ)


@attrs.frozen(kw_only=True)
class FoundFile:
    """A config file of another client, at a place on this machine."""

    client: Client
    path: Path
    is_project: bool = False


def places(client: Client, machine: Machine) -> Iterator[FoundFile]:
    """Yield the config files that a client may have on this machine, whether they exist or not."""
    seen = set()
    for file in client.files:
        path = _path(file, machine)
        if path and path not in seen:
            seen.add(path)
            yield FoundFile(client=client, path=path, is_project=file.is_project)


def found(machine: Machine, client: Client | None = None) -> list[FoundFile]:
    """Return the config files that exist on this machine, of one client or of all."""
    clients = CLIENTS.values() if client is None else (client,)
    return [file for each in clients for file in places(each, machine) if _exists(file.path)]


def written(client: Client, machine: Machine) -> Path | None:
    """Return the user's config file of a client into which servers are written here; None if it has none."""
    # It is the first that exists, or else the first of its places, which may not exist yet.
    files = (file for file in client.files if not (file.is_project or file.read_only))
    paths = [path for path in (_path(file, machine) for file in files) if path]
    return next(filter(_exists, paths), paths[0] if paths else None)


def owner(path: Path, machine: Machine) -> Client | None:
    """Return the client that a config file belongs to, by its path, or else by its name and its folder's."""
    whole = machine.folder / path
    files = [file for client in CLIENTS.values() for file in places(client, machine)]
    exact = next((file.client for file in files if file.path == whole), None)
    if exact:
        return exact
    tail = whole.parts[-2:]
    return next((file.client for file in files if file.path.parts[-2:] == tail and len(tail[0]) > 1), None)


def project_of(path: Path, machine: Machine) -> str:
    """Return the folder of the project whose config file of some client this is; empty if it is none."""
    whole = Path(os.path.normpath(machine.folder / path))
    for client in CLIENTS.values():
        own = (file.path for file in places(client, machine) if not file.is_project)
        if any(os.path.realpath(each) == os.path.realpath(whole) for each in own):
            return ""
    for file in (file for client in CLIENTS.values() for file in client.files if file.is_project):
        depth = len(Path(file.path).parts)
        if whole.parts[-depth:] == Path(file.path).parts:
            return str(whole.parents[depth - 1])
    return ""


def _path(file: ConfigFile, machine: Machine) -> Path | None:
    if machine.system not in file.systems:
        return None
    if file.is_project:
        return machine.folder / file.path
    root, _, rest = file.path.partition("/")
    if root == "~":
        return machine.home / rest
    value = machine.variables.get(root[1:], "")
    return Path(value) / rest if value else None


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # its folder may not be entered: reading it will say so
        return True
