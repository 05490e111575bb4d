import json

import pytest

from pflow_mcp_plugin import storage
from pflow_mcp_plugin.config import document_text, server_input
from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.storage.file_errors import DEEPEST, is_too_deep


def nested(levels):
    value = "x"
    for _ in range(levels):
        value = {"a": [value]}
    return value


def test_the_limit_counts_tables_and_lists():
    assert not is_too_deep(nested(DEEPEST // 2))
    assert is_too_deep({"b": 1, **nested(DEEPEST // 2 + 1)})
    assert not is_too_deep([{"a": "x"}] * 1000)


def test_json_of_many_levels_is_refused(tmp_path):
    text = json.dumps({"mcpServers": {"a": {"command": "x", "env": nested(300)}}})
    with pytest.raises(PflowError, match="nested too deeply"):
        server_input.from_json(text, "The JSON")
    for form in ("json", "yaml", "toml"):
        with pytest.raises(storage.CorruptFile, match="nested too deeply"):
            document_text.parse(tmp_path / f"a.{form}", as_text(form, text).encode())


def as_text(form, text):
    return "[" + ".".join("a" * 300) + "]" if form == "toml" else text
