import doctest
import inspect
import re
from pathlib import Path

import pytest

from pflow_mcp_plugin import mcp_hookspecs as ours
from pflow_mcp_plugin.contract import hookspecs as hosts

ROOT = Path(__file__).resolve().parents[2]

ARGUMENTS = {
    "pflow_addhooks": ["manager"],
    "pflow_configure": ["host"],
    "pflow_unconfigure": ["host"],
    "pflow_register_nodes": ["host"],
    "pflow_inject_params": ["node"],
    "pflow_register_commands": ["host"],
    "pflow_validate_config": ["host"],
    "pflow_check_lock": ["check"],
    "pflow_run_context": ["run"],
    "pflow_mcp_presets": ["host"],
    "pflow_mcp_prepare_call": ["call"],
    "pflow_mcp_call_tool": ["call"],
}
"""A 1.x signature never changes: what is new is an attribute of the one argument."""

HOOKS = {
    name: hook for module in (hosts, ours) for name, hook in vars(module).items() if name.startswith("pflow_")
}


def test_the_hooks_and_their_arguments_are_these():
    assert {name: list(inspect.signature(hook).parameters) for name, hook in HOOKS.items()} == ARGUMENTS


@pytest.mark.parametrize("name", ARGUMENTS)
def test_the_example_of_a_hook_runs(name):
    examples = doctest.DocTestFinder().find(HOOKS[name], name, globs={})
    assert sum(len(found.examples) for found in examples) >= 2
    runner = doctest.DocTestRunner(verbose=False)
    for found in examples:
        runner.run(found)
    assert runner.summarize(verbose=False).failed == 0


def test_the_page_of_hooks_shows_every_module_of_hooks():
    page = (ROOT / "docs" / "hooks.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"^\.\. automodule:: (\S+)\n   :members:$", page, re.MULTILINE))
    assert {hook.__module__ for hook in HOOKS.values()} <= shown


def test_every_hook_is_documented_and_tested_beside_this():
    page = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
    assert [name for name, (argument,) in ARGUMENTS.items() if f"`{name}({argument})`" not in page] == []
    others = (path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__))
    texts = [path.read_text(encoding="utf-8") for path in others if ".installed" not in path.parts]
    assert [name for name in ARGUMENTS if not any(name in text for text in texts)] == []
