from __future__ import annotations

import pytest

from pflow_mcp_plugin.contract import Entry, Field, Interface


@pytest.mark.parametrize("more", [{}, {"retryable": False}, {"purity": "flow_safe", "extra": {"theirs": 1}}])
def test_an_entry_survives_its_json_form(more):
    interface = Interface(params=(Field(key="a", type="int", required=True),), open=True)
    entry = Entry(node="n", class_name="N", module="m", interface=interface, **more)
    assert Entry.from_dict(entry.to_dict()) == entry
    assert ("retryable" in entry.to_dict()) == (not entry.retryable)
