"""The threats that tests play, each under its number; tests check that these tests exist.

`pytest -m threat` runs them, and `-k row_21_` those of a row. The faults of `tests/faults` have numbers
of their own: a test of theirs plays no threat.
"""

from __future__ import annotations

from pathlib import Path

_TESTS = Path(__file__).parents[1]
_SERVED = "end_to_end/test_served_attacks.py"
_TOKENS = "end_to_end/test_token_attacks.py"
_PROCESSES = "end_to_end/test_process_attacks.py"
_FILES = "end_to_end/test_file_attacks.py"
_STORES = "end_to_end/test_store_attacks.py"
_PLUGINS = "end_to_end/test_plugin_attacks.py"
_PRESETS = "plugins/test_installed_plugins.py"
_NETWORK = "trust/test_network_threats.py"
_EGRESS = "trust/test_egress.py"
_PROJECTS = "config/test_project_threats.py"
_PINS = "trust/test_pin_threats.py"
_TEXT = "trust/test_text_threats.py"
_SIGN_INS = "trust/test_sign_in_threats.py"
_SIGN_IN_SECRETS = "end_to_end/test_sign_in_secrets.py"
_FLOODS = "end_to_end/test_flood_attacks.py"
_APPROVALS = "cli/test_hidden_code.py"
_LINES = "cli/test_forged_lines.py"
_SECRETS = "end_to_end/test_planted_secrets.py"

PLAYED: dict[int, tuple[tuple[str, str], ...]] = {
    1: ((_PINS, "test_row_01"),),
    2: ((_PINS, "test_row_02"),),
    3: ((_PINS, "test_row_03"),),
    4: ((_PINS, "test_row_04"),),
    5: ((_TEXT, "test_row_05"), (_PINS, "test_row_05")),
    6: ((_TEXT, "test_row_06"),),
    7: ((_TEXT, "test_row_07"), (_PINS, "test_row_07")),
    8: ((_TEXT, "test_row_08"),),
    9: ((_SERVED, "test_row_09"), (_FILES, "test_row_09")),
    10: ((_SERVED, "test_row_10"),),
    11: ((_SERVED, "test_row_11"),),
    12: ((_SERVED, "test_row_12"),),
    13: ((_SERVED, "test_row_13"),),
    14: ((_PROCESSES, "test_row_14"),),
    15: ((_PROCESSES, "test_row_15"),),
    16: ((_NETWORK, "test_row_16"),),
    17: ((_NETWORK, "test_row_17"),),
    18: (
        (_NETWORK, "test_row_18"),
        (_EGRESS, "test_row_18"),
        (_TOKENS, "test_row_18"),
        (_SIGN_INS, "test_row_18"),
    ),
    19: ((_NETWORK, "test_row_19"),),
    20: ((_NETWORK, "test_row_20"),),
    21: ((_TOKENS, "test_row_21"), (_SIGN_INS, "test_row_21")),
    22: ((_NETWORK, "test_row_22"),),
    23: ((_FILES, "test_row_23"), (_SIGN_INS, "test_row_23")),
    24: ((_FILES, "test_row_24"),),
    25: ((_SERVED, "test_row_25"),),
    26: ((_SERVED, "test_row_26"),),
    27: ((_SERVED, "test_row_27"),),
    28: ((_FILES, "test_row_28"),),
    29: ((_PROJECTS, "test_row_29"),),
    30: ((_SERVED, "test_row_30"), (_FILES, "test_row_30")),
    31: ((_PINS, "test_row_31"),),
    32: ((_SERVED, "test_row_32"), (_FILES, "test_row_32")),
    33: ((_PRESETS, "test_row_33"), (_PROJECTS, "test_row_33")),
    34: (("cli/test_import_servers.py", "test_row_34"),),
    35: ((_PLUGINS, "test_row_35"),),
    36: ((_PLUGINS, "test_row_36"), (_SERVED, "test_row_36")),
    37: (
        (_SERVED, "test_row_37"),
        (_SECRETS, "test_row_37"),
        (_SIGN_IN_SECRETS, "test_row_37"),
        (_FILES, "test_row_37"),
        ("end_to_end/test_cached_runs.py", "test_row_37"),
    ),
    60: (
        (_STORES, "test_row_60"),
        ("storage/test_write_access.py", "test_row_60"),
        ("config/test_stored_files.py", "test_row_60"),
    ),
    61: ((_STORES, "test_row_61"), ("cli/test_login.py", "test_row_61")),
    62: (
        (_NETWORK, "test_row_62"),
        (_EGRESS, "test_row_62"),
        ("config/test_server_schema.py", "test_row_62"),
    ),
    56: ((_FLOODS, "test_row_56"),),
    59: ((_SERVED, "test_row_59"),),
    63: (("host/workflow/test_shell_evaluation.py", "test_row_63"),),
    64: (("host/nodes/test_shell.py", "test_row_64"),),
    65: ((_SERVED, "test_row_65"),),
    54: (("config/test_display.py", "test_row_54"), (_APPROVALS, "test_row_54")),
    55: ((_PINS, "test_row_55"), ("server/test_settings_tools.py", "test_row_55")),
    57: (
        ("config/test_expansion.py", "test_row_57"),
        ("redaction/test_redaction.py", "test_row_57"),
    ),
    58: ((_LINES, "test_row_58"),),
}
"""By number, the tests that play a threat: file, and how their names begin, which is with that number."""

NOT_YET = set(range(39, 54))
"""Those that no test plays as a whole under their number."""

OUT_OF_SCOPE = {38}
"""Those that nothing here can hold off, as SECURITY.md says."""

ALL = set(PLAYED) | NOT_YET

OF_SERVING = {9, 10, 11, 12, 13, 25, 26, 27, 30, 32, 36, 37, 59, 65}
"""Those that whoever is served could play."""

_ROWS: dict[Path, list[tuple[str, int]]] = {}
for _row, _tests in PLAYED.items():
    for _file, _begins in _tests:
        _ROWS.setdefault(_TESTS / _file, []).append((_begins, _row))


def row_of(path: Path, name: str) -> int:
    """Return the row that a test plays, 0 if it plays none."""
    return next((row for begins, row in _ROWS.get(path, ()) if name.startswith(begins)), 0)


def files_of(row: int) -> list[str]:
    """Return the files with the tests of a row, below the folder of the tests."""
    return list(dict.fromkeys(file for file, _ in PLAYED[row]))
