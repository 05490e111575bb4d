"""The tests mirror the package: those of a module are in a file of its name, or where this table says."""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "pflow_mcp_plugin"

ELSEWHERE = {
    # What only ever works together, or is seen from outside only, is tested through its face.
    "processes": "client/test_pool_ending.py, and through end_to_end/test_kill.py",
    "client": "its parts are tested through the pool, against servers that misbehave",
    "cli/client_file": "cli/test_export_servers.py",
    "cli/dependencies": "cli/test_add.py",
    "cli/demo": "end_to_end/test_demo.py",
    "cli/info": "cli/test_tools.py",
    "cli/named_tool": "cli/test_call.py and cli/test_tools.py",
    "trust/addresses": "trust/test_egress.py",
    "trust/tool_findings": "values without behaviour",
    "trust/name_index": "trust/test_claimed_names.py and trust/test_shadowing.py",
    "trust/tool_texts": "trust/test_hidden_text.py",
    "cli/server_sync": "cli/test_sync.py",
    "cli/setup_options": "cli/test_client_setup.py",
    "cli/startup_timeout": "cli/test_sync.py",
    "cli/server_access": "cli/test_auth.py",
    "cli/stored_sign_ins": "cli/test_auth.py",
    "cli/terminal": "cli/test_sync.py",
    "config/auth": "config/test_server_schema.py",
    "config/dialects": "config/test_server_input.py",
    "config/interchange/clients": "config/interchange/test_client_files.py",
    "config/interchange/client_formats": "config/interchange/test_client_documents.py",
    "config/interchange/codex_format": "config/interchange/test_server_format.py",
    "config/field_checks": "config/test_server_schema.py",
    "config/problem_errors": "config/test_server_store.py",
    "config/toml_codec": "config/test_server_store.py",
    "contract/validators": "contract/test_values.py",
    "contract/commands": "contract/test_problems.py",
    "contract/conformance": "contract/test_conformance.py",
    "contract/libraries": "contract/test_hosts.py",
    "contract/matches": "contract/test_hosts.py",
    "contract/registries": "contract/test_hosts.py",
    "contract/runners": "contract/test_hosts.py",
    "contract/runs": "contract/test_problems.py",
    "contract/settings": "contract/test_hosts.py",
    "contract/traces": "it holds signatures only",
    "contract/suggestions": "contract/test_values.py",
    "contract/outcomes": "contract/test_problems.py",
    "contract/node_outcomes": "contract/test_problems.py",
    "contract/progress": "contract/test_run_requests.py",
    "contract/json_types": "values without behaviour",
    "contract/hookspecs": "contract/test_hooks.py",
    "schemas/schema_properties": "execution/test_call_arguments.py",
    "schemas/schema_document": "registration/test_node_interface.py",
    "discovery/server_launch": "discovery/test_tool_sync.py",
    "discovery/tool_filter": "discovery/test_tool_sync.py",
    "discovery/servers": "discovery/test_catalog.py",
    "discovery/tool_file": "discovery/test_catalog.py",
    "trust/json_equality": "trust/test_tool_danger.py",
    "trust/json_excerpt": "trust/test_tool_difference.py",
    "trust/renamed_tools": "trust/test_tool_danger.py",
    "trust/schema_changes": "discovery/test_tool_changes.py",
    "trust/schema_keywords": "discovery/test_tool_changes.py",
    "trust/schema_forms": "trust/test_tool_danger.py",
    "trust/schema_texts": "trust/test_tool_danger.py",
    "trust/word_forms": "trust/test_text_changes.py",
    "execution/artifacts": "execution/test_result.py",
    "execution/call_hooks": "execution/test_runtime.py",
    "schemas/schema_reduction": "schemas/test_argument_validation.py",
    "schemas/quick_check": "schemas/test_argument_validation.py",
    "server/tools/discovery_answer": "server/test_registry_tools.py and server/test_workflow_tools.py",
    "server/mounted_workflow": "server/test_workflow_as_tool.py",
    "host/embedded_host": "host/core/test_plugins.py",
    "host/builtin_nodes": "host/nodes/test_nodes.py",
    "host/completion/scripts": "host/completion/test_completion.py",
    "host/direct/flag_names": "host/direct/test_node_flags.py",
    "host/config_checks": "host/core/test_cli.py",
    "host/cli": "host/core/test_cli.py",
    "host/hook_matching": "host/core/test_plugins.py",
    "host/system_keyring": "test_extras.py",
    "host/language_model": "host/nodes/test_llm_node.py",
    "host/model_keys": "host/nodes/test_llm_node.py",
    "host/nodes": "host/nodes/test_nodes.py",
    "host/matching/name_parts": "host/core/test_registry.py",
    "host/matching/workflow_match": "host/core/test_workflow_library.py",
    "host/matching/task_words": "host/core/test_discovery.py",
    "host/matching/model_ranking": "host/core/test_discovery.py",
    "host/matching/sentence_model": "host/core/test_semantic_search.py",
    "host/shared_parts": "end_to_end/test_runs_in_threads.py",
    "host/registry": "host/core/test_registry.py",
    "host/running": "host/running/test_runner.py",
    "host/planning/plan": "host/planning/test_planner.py",
    "host/planning/plan_model": "end_to_end/test_plan.py",
    "host/python_workflow": "end_to_end/test_examples.py",
    "host/rendering/svg_drawing": "host/workflow/test_whole.py",
    "host/rendering/drawn_workflow": "host/workflow/test_whole.py",
    "host/rendering/mermaid": "host/workflow/test_whole.py",
    "host/rendering/html_page": "host/core/test_trace_files.py",
    "host/rendering/python_export": "host/workflow/test_whole.py",
    "host/rendering/timeline": "host/core/test_trace_files.py",
    "host/standard_streams": "cli/test_closed_streams.py",
    "host/standard_input": "host/direct/test_direct_run.py",
    "host/printable_json": "host/core/test_cli.py",
    "host/workflow": "host/workflow/test_workflow_check.py",
    "host/workflow_name": "host/core/test_workflow_library.py",
    "registration/tool_entry": "registration/test_tool_source.py",
    "registration/lazy_source": "registration/test_tool_source.py",
    "registration/stub_file": "cli/test_stubs.py",
    "server/argument_check": "server/test_pflow_server.py",
    "server/demo_server": "end_to_end/test_demo.py",
    "cli/http_options": "server/http/test_serving.py",
    "server/http/authorization_server": "server/http/test_access_tokens.py",
    "server/http/bearer_token": "server/http/test_serving.py",
    "server/http/bounded_connection": "server/http/test_request_limits.py",
    "server/http/caller": "server/http/test_access_tokens.py",
    "server/http/failure_lines": "server/http/test_http_app.py",
    "server/http/http_server": "server/http/test_serving.py",
    "server/http/request_gate": "server/http/test_http_app.py",
    "server/http/token_verdict": "server/http/test_access_tokens.py",
    "server/envelopes": "server/test_pflow_server.py",
    "server/list_changes": "server/test_pflow_server.py",
    "server/progress_sender": "server/test_pflow_server.py",
    "server/served_tool": "server/test_pflow_server.py",
    "server/serving_options": "server/test_pflow_server.py",
    "server/tool_selection": "cli/test_serve.py",
    "server/tools/all_tools": "server/test_pflow_server.py",
    "server/tools/schemas": "server/test_pflow_server.py",
    "server/worker_threads": "server/test_pflow_server.py",
    "server/workflow_argument": "server/test_confined_paths.py",
    "storage": "storage/test_storage.py",
    "__main__": "test_program.py",
    "errors": "values without behaviour",
    "exchange": "values without behaviour",
    "mcp_hookspecs": "contract/test_hooks.py",
    "plugin": "test_package.py",
    "presets/builtin_servers": "presets/test_builtin.py",
    "presets/package_template": "cli/test_new_preset.py",
    "redaction": "redaction/test_redaction.py",
    "testing/pipe_relay": "testing/test_fake_server.py",
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
