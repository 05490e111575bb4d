"""A real headless Chromium that a test steers with its mouse, over a pipe (Chrome DevTools Protocol).

As a program, it is somebody at a browser who approves the login page of `authorization_server.py`.
"""

import json
import os
import select
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HEADLESS = [
    "--headless",
    "--no-sandbox",  # root cannot have it
    "--disable-gpu",
    "--no-first-run",
    # It is to ask nobody for anything but what it is told to open.
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-proxy-server",
    "--ignore-certificate-errors",  # the CA of a test is unknown to it
]
# Chromium reads from descriptor 3 and writes to 4.
_START = """import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
_SECONDS = 60


class Browser:
    """A browser with one page.

    Args:
        requests: Where it reads from.
        answers: Where it writes to.

    Attributes:
        url: Where it is.
    """

    def __init__(self, requests: int, answers: int) -> None:
        self._requests = requests
        self._answers = answers
        self._read = b""
        self._count = 0
        self._session: dict[str, str] = {}
        self._loads = 0
        self.url = ""
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self._ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = {"sessionId": attached["sessionId"]}
        self._ask("Page.enable")

    def open(self, url: str) -> None:
        """Open a page and wait until it has loaded."""
        loads = self._loads
        self._ask("Page.navigate", url=url)
        self._wait_for_load(loads)

    def click(self, selector: str) -> None:
        """Click the middle of what a CSS selector finds, and wait until the page that follows has loaded."""
        found = f"document.querySelector({json.dumps(selector)}).getBoundingClientRect()"
        where = self._evaluate(f"(({{x, y, width, height}}) => [x + width / 2, y + height / 2])({found})")
        spot = {"x": where[0], "y": where[1], "button": "left", "clickCount": 1}
        loads = self._loads
        for kind in ("mousePressed", "mouseReleased"):
            self._ask("Input.dispatchMouseEvent", type=kind, **spot)
        self._wait_for_load(loads)

    @property
    def text(self) -> str:
        """What one reads there."""
        return str(self._evaluate("document.body.innerText"))

    def _evaluate(self, expression: str) -> Any:
        said = self._ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in said, said
        return said["result"]["value"]

    def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._count += 1
        message = {"id": self._count, "method": method, "params": params, **self._session}
        os.write(self._requests, json.dumps(message).encode() + b"\0")
        while (said := self._next()).get("id") != self._count:
            pass
        assert "error" not in said, said
        result: dict[str, Any] = said["result"]
        return result

    def _wait_for_load(self, before: int) -> None:
        while self._loads == before:
            self._next()

    def _next(self) -> dict[str, Any]:
        """Return the next message of the browser."""
        deadline = time.monotonic() + _SECONDS
        while b"\0" not in self._read:
            ready, _, _ = select.select([self._answers], [], [], deadline - time.monotonic())
            assert ready, f"Chromium said nothing for {_SECONDS} s"
            more = os.read(self._answers, 65536)
            assert more, "Chromium has ended"
            self._read += more
        line, _, self._read = self._read.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        self._loads += message.get("method") == "Page.loadEventFired"
        if message.get("method") == "Page.frameNavigated" and "parentId" not in message["params"]["frame"]:
            self.url = message["params"]["frame"]["url"]
        return message


@contextmanager
def browsing(chromium: str, folder: Path) -> Iterator[Browser]:
    """Run a browser for the `with` block, with its profile in a folder."""
    requests_read, requests = os.pipe()
    answers, answers_written = os.pipe()
    command = [
        *(sys.executable, "-c", _START, str(requests_read), str(answers_written)),
        *(chromium, *HEADLESS, "--remote-debugging-pipe", f"--user-data-dir={folder}"),
    ]
    process = subprocess.Popen(
        command, pass_fds=(requests_read, answers_written), stderr=subprocess.DEVNULL, start_new_session=True
    )
    os.close(requests_read)
    os.close(answers_written)
    try:
        yield Browser(requests, answers)
    finally:
        os.killpg(process.pid, 9)
        process.wait(10)
        os.close(requests)
        os.close(answers)


def approving_person(chromium: str, folder: Path) -> str:
    """Return a value of `$BROWSER` with which a page that a program opens is approved with a click."""
    return shlex.join([sys.executable, __file__, chromium, str(folder)]) + " %s &"


def main() -> None:
    """Open a login page, approve, and leave once the page that follows has loaded."""
    chromium, folder, url = sys.argv[1:]
    with browsing(chromium, Path(folder)) as browser:
        browser.open(url)
        browser.click("#approve")


if __name__ == "__main__":
    main()
