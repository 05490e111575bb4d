"""Puts a completion script where its shell finds it by itself, and removes it.

- bash: the user's folder of the package bash-completion
- zsh: the first folder of `fpath` in the home folder
- fish: the user's folder of completions

Where bash has no bash-completion, or zsh no completion at all or no such folder, the script is kept among
pflow's own files and a block in `~/.bashrc` or `.zshrc` reads it.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.plugins import entry_points, is_own_script
from pflow_mcp_plugin.storage import StoreError, read_bytes, write_atomic

SHELLS = ("bash", "zsh", "fish")


def programs() -> list[str]:
    """Return the names under which the program is installed."""
    return [it.name for it in entry_points("console_scripts") if is_own_script(it)] or ["pflow"]


def script(shell: str) -> str:
    """Return the completion script of a shell, for every name of the program."""
    template = Path(__file__).with_name(f"pflow.{shell}").read_text(encoding="utf-8")
    return template.replace("@PROGRAMS@", " ".join(programs()))


_OURS = b"written by `pflow completion "
_BEGIN, _END = "# >>> completion of pflow >>>", "# <<< completion of pflow <<<"
_BLOCK = re.compile(rb"\n?# >>> completion of pflow >>>\n.*?# <<< completion of pflow <<<\n", re.DOTALL)
_ANSWER = "pflow-asks:"
_SECONDS = 20
"""How long a shell may take to start."""
_LOADS_BY_NAME = "declare -F _comp_load __load_completion _completion_loader | sed 's/^/pflow-asks:/'"
_FPATH = f"(( $+functions[compdef] )) && print -rl -- {_ANSWER}$^fpath"
_START_COMPLETION = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i; }"


@attrs.frozen(kw_only=True)
class Installation:
    """The places of a shell's completion script.

    Attributes:
        content: The script.
        files: The files that the shell finds by itself.
        own_file: One of pflow's own, that a block in `startup_file` reads.
        startup_file: The file that the shell runs when it starts; None if it never needs one.
        block: The lines to add to it.
        finds: Asks the shell whether it finds `files`.
    """

    content: bytes
    files: Sequence[Path]
    own_file: Path
    startup_file: Path | None = None
    block: str = ""
    finds: Callable[[], bool] = lambda: True

    def install(self) -> list[Path]:
        """Write the script; return the files that were changed.

        Raises:
            PflowError: A file is there that pflow has not written, or one cannot be written.
        """
        if self.files and not self._is_read() and self.finds():
            return [path for path in self.files if _write_script(path, self.content)]
        changed = [self.own_file] if _write_script(self.own_file, self.content) else []
        startup = self.startup_file
        return [*changed, startup] if startup and _change(startup, self._with_block) else changed

    def uninstall(self) -> list[Path]:
        """Remove all that `install` has written; return the files that were removed or changed.

        Raises:
            PflowError: A file cannot be removed or changed.
        """
        removed = [path for path in (*self.files, self.own_file) if _is_ours(path)]
        for path in removed:
            try:
                path.unlink()
            except OSError as error:
                raise StoreError(path, f"could not be removed: {error.strerror}") from error
        startup = self.startup_file
        return [*removed, startup] if startup and _change(startup, _without_block) else removed

    def _is_read(self) -> bool:
        """Return whether the startup file reads the script already, so that the shell completes by that."""
        return self.startup_file is not None and bool(_BLOCK.search(read_bytes(self.startup_file) or b""))

    def _with_block(self, content: bytes) -> bytes:
        before = _without_block(content)
        gap = b"\n" if before and not before.endswith(b"\n") else b""
        block = f"\n{_BEGIN}\n{self.block}\n{_END}\n"
        return before + gap + os.fsencode(block)


def installation(shell: str, data: Path) -> Installation:
    """Return where the completion script of a shell belongs.

    Args:
        shell: Its name.
        data: The folder of pflow's own files.
    """
    content = script(shell).encode()
    own_file = data / "completion" / f"pflow.{shell}"
    read = f". {shlex.quote(str(own_file))}"
    if shell == "fish":
        folder = _folder("XDG_CONFIG_HOME", ".config") / "fish" / "completions"
        files = [folder / f"{program}.fish" for program in programs()]
        return Installation(content=content, files=files, own_file=own_file)
    if shell == "bash":
        folder = _bash_folder() / "completions"
        return Installation(
            content=content,
            files=[folder / program for program in programs()],
            own_file=own_file,
            startup_file=Path.home() / ".bashrc",
            block=read,
            finds=lambda: bool(_asked(["bash", "-i", "-c", _LOADS_BY_NAME])),
        )
    return Installation(
        content=content,
        files=_zsh_files(),
        own_file=own_file,
        startup_file=_folder("ZDOTDIR", "") / ".zshrc",
        block=f"{_START_COMPLETION}\n{read}",
    )


def _bash_folder() -> Path:
    chosen = os.environ.get("BASH_COMPLETION_USER_DIR", "").partition(":")[0]
    return Path(chosen) if chosen else _folder("XDG_DATA_HOME", ".local/share") / "bash-completion"


def _zsh_files() -> list[Path]:
    """Return the user's file in `fpath`; none if there is no folder for it, or zsh does not complete."""
    folders = [Path(answer) for answer in _asked(["zsh", "-i", "-c", _FPATH])]
    own = [it for it in folders if it.is_relative_to(Path.home()) and it.is_dir() and os.access(it, os.W_OK)]
    return [own[0] / "_pflow"] if own else []


def _folder(variable: str, default: str) -> Path:
    given = os.environ.get(variable)
    return Path(given) if given else Path.home() / default


def _asked(command: Sequence[str]) -> list[str]:
    """Return what a new interactive shell answers, which the user's own files have set up.

    It has no terminal, so that it cannot take that of pflow.
    """
    try:
        done = subprocess.run(  # noqa: S603 - the shell for which the user installs
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
            start_new_session=True,
            check=False,
        )
    except FileNotFoundError:
        raise PflowError(f"{command[0]} is not installed", kind="config") from None
    except subprocess.TimeoutExpired:
        return []
    lines = os.fsdecode(done.stdout).splitlines()
    return [line.removeprefix(_ANSWER) for line in lines if line.startswith(_ANSWER)]


def _write_script(path: Path, content: bytes) -> bool:
    """Write a script; return whether it was not there.

    Raises:
        PflowError: Another file is there.
    """
    found = read_bytes(path)
    if found == content:
        return False
    if found is not None and _OURS not in found:
        step = f"Move it away, or print the script instead: pflow completion {path.suffix[1:] or 'bash'}"
        raise PflowError(f"{path} exists, and pflow did not write it", suggestions=(step,), kind="config")
    write_atomic(path, content, mode=None)
    return True


def _is_ours(path: Path) -> bool:
    return _OURS in (read_bytes(path) or b"")


def _change(path: Path, change: Callable[[bytes], bytes]) -> bool:
    """Change a file of the user's, which keeps its permissions; return whether it is different now."""
    content = read_bytes(path)
    changed = change(content or b"")
    if changed == (content or b""):
        return False
    write_atomic(path, changed, mode=None if content is None else path.stat().st_mode & 0o7777)
    return True


def _without_block(content: bytes) -> bytes:
    return _BLOCK.sub(b"", content)
