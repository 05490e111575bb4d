"""The browser of the user, which a login opens."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress

_DISPLAYS = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME")
_PROGRAM = "import sys, webbrowser; sys.exit(not webbrowser.open(sys.argv[1]))"


def has_browser() -> bool:
    """Whether a browser can be expected to open: one that takes over the terminal does not count."""
    return sys.platform in ("darwin", "win32") or any(map(os.environ.get, _DISPLAYS))


def open_in_browser(url: str) -> None:
    """Open a URL in the user's browser, as `$BROWSER` or the desktop says, and do not wait for it.

    No shell is involved. What the browser prints is discarded, and Ctrl-C does not reach it.
    """
    if not url.startswith(("https://", "http://")):
        raise ValueError("only web pages are opened")
    # The module `webbrowser` would let it write to our standard output, and wait for some browsers.
    threading.Thread(target=_open, args=(url,), daemon=True).start()


def _open(url: str) -> None:
    command = [sys.executable, "-I", "-c", _PROGRAM, url]
    with suppress(OSError):  # the URL is too long for an argument, or there are too many processes
        subprocess.run(  # noqa: S603 - no shell; the URL is checked
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            check=False,
        )
