from __future__ import annotations

import pytest

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.workflow import load_workflow


def test_a_workflow_is_read_with_or_without_a_byte_order_mark():
    assert load_workflow('\ufeff{"nodes": []}', "wf.json") == {"nodes": []}


def test_a_syntax_error_names_file_line_and_column():
    with pytest.raises(PflowError) as caught:
        load_workflow('{\n  "nodes": [,]\n}', "wf.json")
    assert caught.value.message.startswith("wf.json is not valid JSON: Expecting value at line 2, column 13")
    assert caught.value.details == {"file": "wf.json", "line": 2, "column": 13}
    assert caught.value.kind == "validation"


@pytest.mark.parametrize(
    "text", ["[]", "3", "null", '{"a": NaN}', '{"a": -1e999}', "[" * 100_000, "", '{"a": ' + "9" * 5000 + "}"]
)
def test_what_is_no_workflow_is_refused_by_name(text):
    with pytest.raises(PflowError, match=r"wf\.json"):
        load_workflow(text, "wf.json")
