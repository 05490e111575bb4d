from __future__ import annotations

import pytest

from pflow_mcp_plugin.contract import Entry, Field, Interface


@pytest.mark.parametrize("open_outputs", [False, True])
@pytest.mark.parametrize("more", [{}, {"retryable": False}, {"purity": "flow_safe", "extra": {"theirs": 1}}])
def test_an_entry_survives_its_json_form(more, open_outputs):
    interface = Interface(
        params=(Field(key="a", type="int", required=True),), open=True, open_outputs=open_outputs
    )
    entry = Entry(node="n", class_name="N", module="m", interface=interface, **more)
    assert Entry.from_dict(entry.to_dict()) == entry
    assert ("retryable" in entry.to_dict()) == (not entry.retryable)
    assert ("open_outputs" in entry.to_dict()["interface"]) == open_outputs
