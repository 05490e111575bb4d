"""The threats that tests play, each under its number; a test checks that these tests exist."""

from __future__ import annotations

_SERVED = "end_to_end/test_served_attacks.py"
_HTTP_FAULTS = "faults/test_http.py"
_STDIO_FAULTS = "faults/test_stdio.py"
_STORES = "faults/test_stores.py"
_HTTP_APP = "server/http/test_http_app.py"
_SERVING = "server/http/test_serving.py"
_TOKENS = "server/http/test_access_tokens.py"
_NETWORK = "trust/test_network_threats.py"
_TEXT = "trust/test_text_threats.py"
_SECRETS = "end_to_end/test_planted_secrets.py"

PLAYED: dict[int, tuple[tuple[str, str], ...]] = {
    5: (
        (_TEXT, "test_row_05_"),
        ("host/completion/test_shell_reply.py", "test_what_could_steer_a_terminal_never_reaches_a_shell"),
    ),
    6: ((_TEXT, "test_row_06_"),),
    7: (
        (_TEXT, "test_row_07_"),
        ("discovery/test_catalog.py", "test_tools_that_would_share_a_name_both_get_a_suffix"),
        ("client/test_pagination.py", "test_tools_that_share_a_name_are_left_out_and_named"),
    ),
    8: ((_TEXT, "test_row_08_"),),
    9: ((_SERVED, "test_row_09"),),
    10: ((_SERVED, "test_row_10"),),
    11: ((_SERVED, "test_row_11"), (_STDIO_FAULTS, "test_row_07"), (_HTTP_FAULTS, "test_row_50")),
    12: ((_SERVED, "test_row_12"), (_STDIO_FAULTS, "test_row_29")),
    13: ((_SERVED, "test_row_13"),),
    14: ((_STDIO_FAULTS, "test_row_14"), (_STDIO_FAULTS, "test_row_15")),
    15: (
        ("end_to_end/test_stdio_specification.py", "test_a_server_sees_no_secret_of_the_users_environment"),
    ),
    16: (("trust/test_egress.py", "test_plain_http_to_another_machine"), (_NETWORK, "test_row_16")),
    17: ((_HTTP_FAULTS, "test_row_46"), (_NETWORK, "test_row_17")),
    19: ((_NETWORK, "test_row_19"),),
    20: (
        (_HTTP_FAULTS, "test_row_37"),
        (_HTTP_FAULTS, "test_row_38"),
        (_HTTP_FAULTS, "test_row_39"),
        (_NETWORK, "test_row_20"),
    ),
    22: ((_NETWORK, "test_row_22"),),
    23: ((_STORES, "test_row_63"),),
    24: ((_STORES, "test_row_64"), (_SERVED, "test_row_30_no_string")),
    25: ((_SERVED, "test_row_25"), (_SERVING, "test_the_token_is_not_passed_on_to_what_runs")),
    26: (
        (_SERVED, "test_row_26"),
        (_HTTP_APP, "test_a_name_that_is_not_the_servers_is_refused"),
        (_HTTP_APP, "test_a_web_page_is_refused_on_every_path_although_it_has_the_token"),
        (_HTTP_APP, "test_no_path_and_no_method_answers_without_the_token"),
        (_TOKENS, "test_a_token_is_refused_with_the_reason"),
        (_TOKENS, "test_a_token_of_another_key_is_refused"),
        (_TOKENS, "test_subjects_are_told_apart_also_when_they_call_at_once"),
        (_SERVING, "test_clients_of_an_authorization_server_do_not_see_each_others_runs"),
    ),
    27: ((_SERVED, "test_row_27"), (_SERVING, "test_a_token_file_that_others_may_read_is_warned_about")),
    30: (
        (_SERVED, "test_row_30_no_string"),
        (_SERVED, "test_row_30_no_uri"),
        (_SERVING, "test_files_are_not_read_over_http"),
        ("server/test_confined_paths.py", "test_no_path_leads_out_of_the_folder"),
    ),
    32: (
        (_SERVED, "test_row_32_bombs"),
        (_SERVED, "test_row_32_a_message"),
        (_HTTP_APP, "test_a_body_nested_without_end_is_refused_and_the_server_goes_on"),
        (_STDIO_FAULTS, "test_row_24"),
        (_STDIO_FAULTS, "test_row_26"),
        ("host/workflow/test_workflow_check.py", "test_a_very_deep_workflow_is_refused_not_crashed_on"),
    ),
    34: (("cli/test_import_servers.py", "test_secrets_are_kept_with_a_warning_unless_they_are_moved"),),
    35: (("host/hostile/test_foreign_code.py", "test_whatever_is_raised_is_a_failure_of_the_plugin"),),
    36: (
        (_SERVED, "test_row_36"),
        ("execution/test_runtime.py", "test_a_veto_and_a_failing_plugin_stop_the_call"),
    ),
    37: (
        (_SERVED, "test_row_37"),
        (_SECRETS, "test_no_secret_is_left_where_an_error_is_cut"),
        (_SECRETS, "test_an_artefact_holds_a_result_whole_and_only_its_owner_can_read_it"),
    ),
}
"""By number, the tests that play a threat: file, and how their names begin."""

NOT_YET = {1, 2, 3, 4, 18, 21, 28, 29, 31, 33}
"""Those that no test plays as a whole under their number."""

OUT_OF_SCOPE = {38}

OF_SERVING = {9, 10, 11, 12, 13, 25, 26, 27, 30, 32, 36, 37}
"""Those that whoever is served could play."""
