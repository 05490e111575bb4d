"""What is started is shown in full where people approve it, also in the place of a secret."""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import stdio_server
from screen import run_on_terminal

pytestmark = pytest.mark.usefixtures("no_leftovers")


@pytest.fixture
def mark(tmp_path) -> Path:
    return tmp_path / "PWN"


def _table(code: str) -> dict[str, Any]:
    return {"command": "bash", "args": ["-c", code]}


def _code(mark: Path) -> str:
    return _honest(mark).replace("API_KEY=x;", f"API_KEY=x; touch {mark};")


def _honest(mark: Path) -> str:
    return f"API_KEY=x; exec {shlex.join([sys.executable, stdio_server.__file__, 'Plain'])}"


def _said(done: Any) -> str:
    return done.stdout + done.stderr


def test_row_54_what_is_added_imported_synced_and_listed_is_shown(typed, mark, tmp_path):
    file = tmp_path / "other.json"
    file.write_text(json.dumps({"mcpServers": {"odd": _table(_code(mark))}}))
    for command in (
        ("mcp", "import", file, "--dry-run"),
        ("mcp", "import", file),
        ("mcp", "list"),
        ("mcp", "list", "--json"),
        ("mcp", "add", "again", "--", "bash", "-c", _code(mark)),
        ("mcp", "add", "others", "--json", "--", "bash", "-c", _code(mark)),
        ("mcp", "export", "odd", "--to", "claude-code"),
    ):
        assert f"touch {mark}" in _said(typed(*command)), command
    assert not mark.exists()
    assert f"touch {mark}" in typed("mcp", "sync", "odd").stderr


def test_row_54_code_that_changes_where_a_secret_stood_is_shown_before_it_runs(
    typed, pflow_home, mark, hosts
):
    config = pflow_home / "config" / "mcp-servers.toml"
    assert typed("mcp", "add", json.dumps({"odd": _table(_honest(mark))})).exit_code == 0
    assert typed("mcp", "sync", "odd").exit_code == 0
    config.write_text(config.read_text().replace("API_KEY=x;", f"API_KEY=x; touch {mark};"))
    assert f"touch {mark}" in typed("mcp", "diff", "odd").stdout
    answers = {"Approve this and start it?": "n\n"}
    screen = run_on_terminal("mcp", "sync", "odd", home=pflow_home, answers=answers, started=hosts.append)
    assert "touch" in screen.shown
    assert "another secret" not in screen.shown
    assert not mark.exists()
    assert f"touch {mark}" in typed("mcp", "approve", "odd").stdout


def test_row_54_a_project_is_shown_with_its_code(typed, mark, tmp_path):
    table = {**_table(_code(mark)), "env": {"LD_PRELOAD": "evil", "API_KEY": "a`b`"}}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"odd": table}}))
    assert f"touch {mark}" in _said(typed("--project", "mcp", "list"))
    shown = _said(typed("mcp", "approve", "--project"))
    for part in (f"touch {mark}", "LD_PRELOAD=evil", "API_KEY=a`b`"):
        assert part in shown
    assert not mark.exists()


def test_row_54_code_is_no_secret_that_an_import_moves_to_the_settings(typed, pflow_home, mark, tmp_path):
    file = tmp_path / "other.json"
    table = {"command": "npx", "args": ["--token", "evil-package"]}
    file.write_text(json.dumps({"mcpServers": {"odd": _table(_code(mark)), "other": table}}))
    shown = _said(typed("mcp", "import", file, "--secrets-to-settings"))
    for text in (shown, (pflow_home / "config" / "mcp-servers.toml").read_text()):
        for part in (f"touch {mark}", stdio_server.__file__, "evil-package"):
            assert part in text


def test_row_54_a_program_in_a_variable_that_is_called_like_a_secret_is_shown(typed, mark):
    script = mark.with_name("evil.py")
    script.write_text(f"open({str(mark)!r}, 'w')", encoding="utf-8")
    table = {"command": sys.executable, "args": ["${API_KEY}"], "startup_timeout": 5}
    assert typed("settings", "set", "API_KEY", script).exit_code == 0
    assert typed("mcp", "add", json.dumps({"odd": table})).exit_code == 0
    assert f"where API_KEY={script}" in typed("mcp", "sync", "odd").stderr
