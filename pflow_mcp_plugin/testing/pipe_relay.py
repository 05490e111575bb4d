"""The program by which clients start a fake server: it relays messages between its pipes and the test.

Arguments: the path of the socket on which the test listens. It imports the standard library only, so
that it starts at once.
"""

from __future__ import annotations

import os
import socket
import sys
import threading

_CHUNK = 1 << 16


def main(path: str) -> int:
    """Relay between the client's pipes and the test until one of them closes; return the exit code."""
    with socket.socket(socket.AF_UNIX) as test:
        try:
            test.connect(path)
        except OSError as error:
            print(f"The fake server was closed: {error}", file=sys.stderr)  # noqa: T201 - what a server says
            return 1
        threading.Thread(target=_send, args=(test,), daemon=True).start()
        while chunk := test.recv(_CHUNK):
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
    return 0


def _send(test: socket.socket) -> None:
    while chunk := os.read(0, _CHUNK):
        test.sendall(chunk)
    test.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
