"""The person at the terminal: whether there is one, messages beside a report, a browser, hidden input."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import click

from pflow_mcp_plugin.terminal.looks import printable

_DISPLAYS = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME")
_BROWSER_PROGRAM = "import sys, webbrowser; sys.exit(not webbrowser.open(sys.argv[1]))"
_LONGEST_LINE = 1 << 16
_LINE_ENDS = b"\r\n"
_END_OF_INPUT = 4
_ERASERS = (8, 127)


def is_interactive() -> bool:
    """Whether a person at a terminal can be asked: not if any standard stream is redirected."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return all(stream is not None and stream.isatty() for stream in streams)


def tell(text: str) -> None:
    """Print a message for the person at the terminal, on standard error, beside a command's report."""
    click.echo(printable(text), err=True)


def has_browser() -> bool:
    """Whether the person at the terminal can be shown a web page; not by a browser in the terminal."""
    return sys.platform in ("darwin", "win32") or any(map(os.environ.get, _DISPLAYS))


def open_in_browser(url: str) -> None:
    """Show the person at the terminal a web page, in the browser of `$BROWSER` or the desktop; do not wait.

    No shell is involved. What the browser prints is discarded, and Ctrl-C does not reach it.
    """
    if not url.startswith(("https://", "http://")):
        raise ValueError("only web pages are opened")
    # The module `webbrowser` would let it write to our standard output, and wait for some browsers.
    threading.Thread(target=_open, args=(url,), daemon=True).start()


def _open(url: str) -> None:
    import subprocess

    command = [sys.executable, "-I", "-c", _BROWSER_PROGRAM, url]
    with suppress(OSError):  # the URL is too long for an argument, or there are too many processes
        subprocess.run(  # noqa: S603 - no shell; the URL is checked
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            check=False,
        )


def read_hidden_line(ask: Callable[[], object]) -> str:
    """Return what the person at the terminal types or pastes, without echo; empty at the end of input.

    `ask` prompts for it, once input is hidden: people may paste the line as soon as they are asked.
    """
    if sys.stdin is None or not sys.stdin.isatty():
        ask()
        return "" if sys.stdin is None else sys.stdin.readline(_LONGEST_LINE).strip()
    try:
        import termios
    except ImportError:  # Windows
        from getpass import getpass

        ask()
        return getpass("")
    descriptor = sys.stdin.fileno()
    with _hiding_input(termios, descriptor):
        ask()
        line = _typed_line(descriptor)
    sys.stderr.write("\n")
    return line


def _typed_line(descriptor: int) -> str:
    found = bytearray()
    while len(found) < _LONGEST_LINE:
        try:
            typed = os.read(descriptor, 4096)
        except OSError:  # the terminal is gone; not every system calls that an error
            typed = b""
        if not typed:
            return ""
        for byte in typed:
            if byte in _LINE_ENDS or byte == _END_OF_INPUT:
                return found.decode(errors="replace").strip()
            if byte in _ERASERS:
                del found[-1:]
            else:
                found.append(byte)
    return ""


@contextmanager
def _hiding_input(termios: Any, descriptor: int) -> Iterator[None]:
    # Where a terminal edits lines itself, some systems cut them after 1,024 bytes.
    before = termios.tcgetattr(descriptor)
    changed = termios.tcgetattr(descriptor)
    changed[3] &= ~(termios.ECHO | termios.ICANON)
    changed[6][termios.VMIN], changed[6][termios.VTIME] = 1, 0
    termios.tcsetattr(descriptor, termios.TCSADRAIN, changed)
    try:
        yield
    finally:
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(descriptor, termios.TCSAFLUSH, before)
