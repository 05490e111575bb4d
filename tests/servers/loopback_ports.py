"""Ports on loopback, for servers that tests start as programs of their own."""

from __future__ import annotations

import socket
import subprocess
import time

_POLL_SECONDS = 0.05


def free_port() -> int:
    """Return a port on which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def wait_for(port: int, process: subprocess.Popen[bytes], seconds: float) -> None:
    """Wait until a process listens on a port.

    Args:
        port: The port on loopback.
        process: The process that opens it.
        seconds: How long to wait at most.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            try:
                process.wait(_POLL_SECONDS)
            except subprocess.TimeoutExpired:
                continue
            raise TimeoutError(f"the server ended with exit code {process.returncode}") from None
        return
    raise TimeoutError(f"no server listened on port {port} within {seconds:g} s")
