"""The pytest plugin with the fixture `pflow_host`; every pytest that can import this package loads it.

Only this module needs pytest, which loads it; all else is imported when the fixture is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pflow_mcp_plugin.testing import PflowHost


@pytest.fixture
def pflow_host(tmp_path: Path) -> Iterator[PflowHost]:
    """Open pflow with an empty home and every installed plugin: `pflow_mcp_plugin.testing.PflowHost`.

    What the test starts is ended with it.
    """
    from pflow_mcp_plugin.testing import open_pflow_host

    with open_pflow_host(tmp_path / "pflow-home") as host:
        yield host
