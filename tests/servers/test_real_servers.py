"""The servers that the other tests lean on are reached by nobody else."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.servers


def test_the_http_server_is_reached_on_loopback_only(everything_http):
    port = int(everything_http.rsplit(":", 1)[1].split("/")[0])
    listening = [
        line.split()[1]
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{table}").read_text(encoding="ascii").splitlines()[1:]
        if line.split()[3] == "0A" and line.split()[1].endswith(f":{port:04X}")
    ]
    assert listening == [f"0100007F:{port:04X}"]
