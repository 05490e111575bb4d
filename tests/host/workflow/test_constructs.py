import re
from pathlib import Path

import pytest

import pflow_mcp_plugin.host
from pflow_mcp_plugin.host.workflow.constructs import CONSTRUCT_KEYS


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("when", "condition_at"),
        ("batch", "Batch"),
        ("retry", "Retry"),
        ("cache", "Caching"),
        ("verify", "Recipe"),
    ],
)
def test_at_most_six_modules_know_a_construct_by_its_name(key, kind):
    assert key in CONSTRUCT_KEYS
    folder = Path(pflow_mcp_plugin.host.__file__).parent
    named = re.compile(rf"(constructs|edge)\.{key}\b|\b{kind}\(|import .*\b{kind}\b|: {kind}\b")
    modules = {path.stem for path in folder.rglob("*.py") if named.search(path.read_text(encoding="utf-8"))}
    assert "constructs" in modules
    assert len(modules) <= 6
