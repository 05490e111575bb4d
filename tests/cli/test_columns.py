"""Columns of text."""

from __future__ import annotations

from pflow_mcp_plugin.cli.columns import columns


def test_columns_are_as_wide_as_their_widest_cell_and_lines_end_in_no_blank():
    assert columns([("a", "long", ""), ("longer", "b", "end")]) == ["a       long", "longer  b     end"]
    assert columns([]) == []
