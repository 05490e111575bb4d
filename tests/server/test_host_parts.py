"""Parts that a host may lack: asking for a missing one is an error."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.server.served_tool import library_of, runner_of, settings_of, traces_of

PARTS = {"runner": runner_of, "library": library_of, "settings": settings_of, "traces": traces_of}


@pytest.mark.parametrize(("name", "part_of"), PARTS.items())
def test_a_missing_part_is_an_error_of_usage(name: str, part_of: Callable[[Any], object]):
    with pytest.raises(PflowError) as raised:
        part_of(SimpleNamespace(**{name: None}))
    assert raised.value.kind == "usage"
    assert raised.value.message.startswith("This pflow ")
