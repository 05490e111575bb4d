"""Names that clients give, as messages show them."""

from __future__ import annotations

from pflow_mcp_plugin.server.served_tool import nearest, shown


def test_a_long_name_is_shortened():
    assert shown("fetch") == "fetch"
    assert shown("x" * 5_000) == "x" * 197 + "..."


def test_the_nearest_name_is_found_whatever_its_case():
    assert nearest("Trace_Raed", ("registry_run", "trace_read")) == "Did you mean trace_read?"


def test_no_name_is_suggested_where_none_is_similar():
    assert nearest("weather", ("registry_run", "trace_read")) == ""
    assert nearest("x" * 1_000_000, ("registry_run",)) == ""
