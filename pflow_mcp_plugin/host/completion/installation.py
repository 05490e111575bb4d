"""The completion scripts of the shells, installed where each shell finds its own automatically.

fish has a folder for completions. bash and zsh run a file of the user's when they start: a block in it reads
the script, which is kept among pflow's own files.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import attrs

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.plugins import entry_points, is_own_script
from pflow_mcp_plugin.storage import StoreError, read_bytes, write_atomic

SHELLS = ("bash", "zsh", "fish")
_OURS = b"written by `pflow completion "
_BEGIN, _END = "# >>> completion of pflow >>>", "# <<< completion of pflow <<<"
_BLOCK = re.compile(f"\n?{_BEGIN}\n.*?{_END}\n".encode(), re.DOTALL)
_START_COMPLETION = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i; }"


def programs() -> list[str]:
    """Return the names under which the program is installed, whose command lines a shell completes."""
    return [it.name for it in entry_points("console_scripts") if is_own_script(it)] or ["pflow"]


def script(shell: str) -> str:
    """Return the completion script of a shell, for every name of the program."""
    template = Path(__file__).with_name(f"pflow.{shell}").read_text(encoding="utf-8")
    return template.replace("@PROGRAMS@", " ".join(programs()))


@attrs.frozen(kw_only=True)
class Installation:
    """The files of a shell's completion script, and the block that reads it if the shell needs one."""

    content: bytes
    files: list[Path]
    startup_file: Path | None = None
    block: str = ""

    def install(self) -> list[Path]:
        """Write the completion script; return the files that were changed."""
        changed = []
        for path in self.files:
            found = read_bytes(path)
            if found is not None and found != self.content and _OURS not in found:
                step = f"Move it away, or print the script instead: pflow completion {path.suffix[1:]}"
                message = f"{path} exists, and pflow did not write it"
                raise PflowError(message, suggestions=(step,), kind="config")
            if found != self.content:
                write_atomic(path, self.content, mode=None)
                changed.append(path)
        startup = self.startup_file
        return [*changed, startup] if startup and _set_block(startup, self.block) else changed

    def uninstall(self) -> list[Path]:
        """Undo `install`: remove the completion script; return the files that were removed or changed."""
        removed = [path for path in self.files if _OURS in (read_bytes(path) or b"")]
        for path in removed:
            try:
                path.unlink()
            except OSError as error:
                raise StoreError(path, f"could not be removed: {error.strerror}") from error
        startup = self.startup_file
        return [*removed, startup] if startup and _set_block(startup, "") else removed


def installation(shell: str, data: Path) -> Installation:
    """Return where the completion script of a shell belongs; `data` is the folder of pflow's own files."""
    content = script(shell).encode()
    if shell == "fish":
        folder = _folder("XDG_CONFIG_HOME", ".config") / "fish" / "completions"
        return Installation(content=content, files=[folder / f"{program}.fish" for program in programs()])
    own_file = data / "completion" / f"pflow.{shell}"
    block = f". {shlex.quote(str(own_file))}"
    startup_file = Path.home() / ".bashrc"
    if shell == "zsh":
        startup_file = _folder("ZDOTDIR", "") / ".zshrc"
        block = f"{_START_COMPLETION}\n{block}"
    return Installation(content=content, files=[own_file], startup_file=startup_file, block=block)


def _folder(variable: str, default: str) -> Path:
    given = os.environ.get(variable)
    return Path(given) if given else Path.home() / default


def _set_block(path: Path, block: str) -> bool:
    """Replace our block in a shell's startup file, which keeps its permissions; return whether it changed."""
    content = read_bytes(path)
    changed = _BLOCK.sub(b"", content or b"")
    if block:
        gap = b"\n" if changed and not changed.endswith(b"\n") else b""
        changed += gap + os.fsencode(f"\n{_BEGIN}\n{block}\n{_END}\n")
    if changed == (content or b""):
        return False
    write_atomic(path, changed, mode=None if content is None else path.stat().st_mode & 0o7777)
    return True
