"""The tests mirror the package: those of a module are in a file of its name, or where this table says."""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "pflow_mcp_plugin"

ELSEWHERE = {
    # What only ever works together, or is seen from outside only, is tested through its face.
    "client": "its parts are tested through the pool, against servers that misbehave",
    "cli/compose": "cli/test_add.py",
    "cli/demo": "end_to_end/test_demo.py",
    "cli/info": "cli/test_tools.py",
    "cli/options": "cli/test_list.py",
    "config/auth": "config/test_schema.py",
    "config/dialects": "config/test_intake.py",
    "config/fields": "config/test_schema.py",
    "config/refusal": "config/test_store.py",
    "config/toml": "config/test_store.py",
    "contract/checks": "contract/test_values.py",
    "contract/commands": "contract/test_problems.py",
    "contract/hookspecs": "contract/test_hooks.py",
    "discovery/declaration": "execution/test_arguments.py",
    "discovery/document": "registration/test_interface.py",
    "discovery/launching": "discovery/test_sync.py",
    "discovery/schemas": "discovery/test_changes.py",
    "discovery/selection": "discovery/test_sync.py",
    "discovery/servers": "discovery/test_catalog.py",
    "discovery/toolfile": "discovery/test_catalog.py",
    "execution/artifacts": "execution/test_result.py",
    "execution/hooks": "execution/test_runtime.py",
    "execution/keywords": "execution/test_validation.py",
    "execution/plain": "execution/test_validation.py",
    "host/app": "host/core/test_plugins.py",
    "host/builtin": "host/nodes/test_nodes.py",
    "host/checks": "host/core/test_cli.py",
    "host/cli": "host/core/test_cli.py",
    "host/hooks": "host/core/test_plugins.py",
    "host/keychain": "test_extras.py",
    "host/models": "host/nodes/test_model.py",
    "host/nodes": "host/nodes/test_nodes.py",
    "host/registry": "host/core/test_registry.py",
    "host/running": "host/running/test_runner.py",
    "host/script": "end_to_end/test_examples.py",
    "host/showing/drawing": "host/workflow/test_whole.py",
    "host/showing/mermaid": "host/workflow/test_whole.py",
    "host/showing/page": "host/core/test_traces.py",
    "host/showing/script": "host/workflow/test_whole.py",
    "host/showing/timeline": "host/core/test_traces.py",
    "host/streams": "cli/test_closed_streams.py",
    "host/workflow": "host/workflow/test_checking.py",
    "registration/entry": "registration/test_source.py",
    "registration/lazy": "registration/test_source.py",
    "registration/stubs": "cli/test_stubs.py",
    "server/demo": "end_to_end/test_demo.py",
    "storage": "storage/test_storage.py",
    "__main__": "test_program.py",
    "errors": "values without behaviour",
    "exchange": "values without behaviour",
    "hookspecs": "contract/test_hooks.py",
    "plugin": "test_package.py",
    "redaction": "redaction/test_redaction.py",
    "types": "values without behaviour",
}
"""What has no test file of its name, by module or by room, with the file that tests it or a reason."""


def _modules() -> set[str]:
    files = (file for file in PACKAGE.rglob("*.py") if file.name != "__init__.py")
    return {file.relative_to(PACKAGE).with_suffix("").as_posix() for file in files}


def _has_tests(module: str) -> bool:
    room, _, _ = module.rpartition("/")
    name = f"test_{Path(module).name}.py"
    return any((TESTS / room.partition("/")[0]).rglob(name)) if room else (TESTS / name).is_file()


def _excused(module: str) -> bool:
    return any(module == name or module.startswith(f"{name}/") for name in ELSEWHERE)


def test_every_module_has_a_test_file_of_its_name_or_a_reason():
    assert sorted(module for module in _modules() if not (_has_tests(module) or _excused(module))) == []


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_is_excused_is_there_and_needs_it(name):
    inside = {module for module in _modules() if module == name or module.startswith(f"{name}/")}
    assert not all(map(_has_tests, inside))
    reason = ELSEWHERE[name]
    assert " " in reason or (TESTS / reason).is_file()
