"""The streamable HTTP transport: pauses that event streams demand."""

from __future__ import annotations

import pytest

from pflow_mcp_plugin.client.streamable_http import granted_pause


@pytest.mark.parametrize(
    ("wanted", "granted"), [(3000, 3), (0, 0.1), (30_000, 30), (30_001, 30), (10**30, 30), (-1, 0.1)]
)
def test_a_pause_lies_between_a_tenth_of_a_second_and_thirty(wanted, granted):
    assert granted_pause(wanted) == granted
