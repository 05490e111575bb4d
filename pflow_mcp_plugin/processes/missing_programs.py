"""Programs such as npx and uvx that are missing from PATH: where they are, or where to get them.

Version managers of Node put their folders on PATH in the start-up files of a login shell, so a
pflow that was not started from one does not see them.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePath

import attrs

from pflow_mcp_plugin.processes.system_calls import signal_group

_SHELLS = ("bash", "zsh", "fish", "ksh", "dash", "sh")
_SHELL_SECONDS = 5.0

_NODE = (
    "Install Node.js, which includes {}: from https://nodejs.org, with Homebrew (brew install node), "
    "or with nvm, fnm or volta"
)
_UV = "pip install uv, or brew install uv; see https://docs.astral.sh/uv"
_SOURCES = {
    **dict.fromkeys(("node", "npm", "npx"), _NODE),
    "uv": f"Install uv: {_UV}",
    "uvx": f"Install uv, which includes uvx: {_UV}",
    "docker": "Install Docker: https://docs.docker.com/get-started/get-docker",
    "podman": "Install Podman: https://podman.io/docs/installation",
    **dict.fromkeys(("bun", "bunx"), "Install Bun, which includes {}: https://bun.sh"),
    "deno": "Install Deno: https://deno.com",
    "pipx": "Install pipx: https://pipx.pypa.io",
    "pnpm": "Install pnpm: https://pnpm.io/installation",
}


@attrs.frozen(kw_only=True)
class FoundProgram:
    """A program that is missing from PATH but was found elsewhere; `source`, such as nvm, installed it."""

    path: str
    source: str

    @property
    def env(self) -> dict[str, str]:
        """The variables to run the missing program with: its script's interpreter is not on PATH either."""
        with suppress(OSError), Path(self.path).open("rb") as file:
            if file.read(64).startswith((b"#!/usr/bin/env", b"#! /usr/bin/env")):
                return {"PATH": f"{Path(self.path).parent}{os.pathsep}${{PATH}}"}
        return {}


def find(command: str, *, ask_shell: bool = True) -> FoundProgram | None:
    """Return a program that is missing from PATH, from known tools' folders or else the login shell.

    A path is never looked for. The login shell may take up to five seconds.
    """
    if not command or os.sep in command:
        return None
    for source, folder in _folders(Path.home()):
        path = folder / command
        if os.path.isfile(path) and os.access(path, os.X_OK):  # noqa: PTH113  # False, too, for a name that is too long
            return FoundProgram(path=str(path), source=source)
    path_of_shell = _from_login_shell(command) if ask_shell else ""
    return FoundProgram(path=path_of_shell, source="your login shell") if path_of_shell else None


def where_to_get(command: str) -> str:
    """Return how to install a missing program such as npx; empty for unknown ones."""
    name = PurePath(command).stem
    return _SOURCES.get(name, "").format(name)


def remedy(command: str, *, ask_shell: bool = True) -> str:
    """Return what to do about a program that is missing from PATH; empty if nothing is known."""
    found = find(command, ask_shell=ask_shell)
    if found is None:
        return where_to_get(command)
    env = "".join(f", and add {value} to its env as {name}" for name, value in found.env.items())
    where = f"It is installed ({found.source}) but not on PATH"
    return f"{where}: give its full path, {found.path}, as command{env}"


def _folders(home: Path) -> Iterator[tuple[str, Path]]:
    nvm = _root("NVM_DIR", home / ".nvm")
    yield from (("nvm", folder) for folder in _versions(nvm, "versions/node/*/bin"))
    fnm = (home / ".local/share/fnm", home / ".fnm", home / "Library/Application Support/fnm")
    for root in (_root("FNM_DIR", fnm[0]), *fnm):
        yield "fnm", root / "aliases/default/bin"
        yield from (("fnm", folder) for folder in _versions(root, "node-versions/*/installation/bin"))
    yield "volta", _root("VOLTA_HOME", home / ".volta") / "bin"
    yield "asdf", home / ".asdf/shims"
    yield "mise", home / ".local/share/mise/shims"
    for place in ("/opt/homebrew/bin", "/home/linuxbrew/.linuxbrew/bin"):
        yield "Homebrew", Path(place)
    yield "Homebrew" if sys.platform == "darwin" else "/usr/local/bin", Path("/usr/local/bin")
    yield "~/.local/bin", home / ".local/bin"
    yield "Cargo", home / ".cargo/bin"
    yield "Bun", home / ".bun/bin"
    yield "Docker", Path("/Applications/Docker.app/Contents/Resources/bin")


def _root(variable: str, default: Path) -> Path:
    return Path(os.environ.get(variable) or default)


def _versions(root: Path, pattern: str) -> list[Path]:
    found = {path: re.findall(r"\d+", str(path.relative_to(root))) for path in root.glob(pattern)}
    return sorted(found, key=lambda path: [*map(int, found[path])], reverse=True)


def _from_login_shell(command: str) -> str:
    shell = os.environ.get("SHELL", "")
    if PurePath(shell).name not in _SHELLS or not os.access(shell, os.X_OK):
        return ""
    question = [shell, "-l", "-i", "-c", f"command -v {shlex.quote(command)}"]
    for line in reversed(_output(question).splitlines()):
        path = Path(line.strip())
        if path.is_absolute() and path.name == command and os.access(path, os.X_OK):
            return str(path)
    return ""


def _output(command: list[str]) -> str:
    """Return what the login shell writes until its time is up; what it leaves behind is ended too."""
    import tempfile

    with tempfile.TemporaryFile() as file:  # a pipe would stay open in what start-up files leave running
        try:
            process = subprocess.Popen(  # noqa: S603 - the user's own shell
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            return ""
        try:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_SHELL_SECONDS)
        finally:
            signal_group(process.pid, signal.SIGKILL)
            process.wait()
        file.seek(0)
        return file.read().decode(errors="replace")
