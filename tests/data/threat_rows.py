"""The threats that tests play, each under its number, which is in the names of its tests: `test_row_21_…`.

`pytest -m threat` runs them, and `-k row_21_` those of a row. The faults of `tests/faults` have numbers
of their own: a test of theirs plays no threat.
"""

import re
from pathlib import Path

_TESTS = Path(__file__).parents[1]
FILES = (
    "cli/test_forged_lines.py",
    "cli/test_hidden_code.py",
    "cli/test_import_servers.py",
    "cli/test_login.py",
    "cli/test_project_approval.py",
    "config/test_display.py",
    "config/test_expansion.py",
    "config/test_server_schema.py",
    "config/test_stored_files.py",
    "end_to_end/test_cached_runs.py",
    "end_to_end/test_file_attacks.py",
    "end_to_end/test_flood_attacks.py",
    "end_to_end/test_planted_secrets.py",
    "end_to_end/test_plugin_attacks.py",
    "end_to_end/test_process_attacks.py",
    "end_to_end/test_served_attacks.py",
    "end_to_end/test_sign_in_secrets.py",
    "end_to_end/test_store_attacks.py",
    "end_to_end/test_token_attacks.py",
    "host/nodes/test_shell.py",
    "host/workflow/test_shell_lines.py",
    "plugins/test_installed_plugins.py",
    "redaction/test_redaction.py",
    "server/test_settings_tools.py",
    "storage/test_write_access.py",
    "trust/test_egress.py",
    "trust/test_network_threats.py",
    "trust/test_pin_threats.py",
    "trust/test_sign_in_threats.py",
    "trust/test_text_threats.py",
)
"""The files with tests of threats, below the folder of the tests."""

NOT_YET = set(range(39, 54))
"""Those that no test plays as a whole under their number."""

OUT_OF_SCOPE = {38}
"""Those that nothing here can hold off, as SECURITY.md says."""

_NUMBERED = re.compile(r"test_row_(\d\d)_")
_PATHS = {_TESTS / file for file in FILES}
_TEXTS = {file: (_TESTS / file).read_text(encoding="utf-8") for file in FILES}
_ROWS = {file: set(map(int, _NUMBERED.findall(text))) for file, text in _TEXTS.items()}

PLAYED: set[int] = set().union(*_ROWS.values())
"""Those that a test plays."""

ALL = PLAYED | NOT_YET


def row_of(path: Path, name: str) -> int:
    """Return the row that a test plays, 0 if it plays none."""
    found = _NUMBERED.match(name) if path in _PATHS else None
    return int(found[1]) if found else 0


def files_of(row: int) -> list[str]:
    """Return the files with the tests of a row, below the folder of the tests."""
    return [file for file, rows in _ROWS.items() if row in rows]
