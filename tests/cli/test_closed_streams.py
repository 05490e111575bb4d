"""The program started without some of its standard streams, as `2>&-` in a shell does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_leftovers")]


@pytest.mark.parametrize("closed", ["0<&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_servers_are_synced_and_used_all_the_same(closed: str, pflow_home: Path, tmp_path: Path) -> None:
    command = f'exec "$0" -P -m pflow_mcp_plugin mcp demo {closed}'
    program = ["/bin/sh", "-c", command, sys.executable]
    environment = {**os.environ, "PFLOW_HOME": str(pflow_home)}
    finished = subprocess.run(
        program, env=environment, cwd=tmp_path, capture_output=True, timeout=90, check=False
    )
    assert finished.returncode == 0, finished
    assert len(list(pflow_home.glob("state/traces/*.json"))) == 1
