"""Secrets that a command prints, used by servers."""

from __future__ import annotations

import sys


def test_what_a_command_prints_is_redacted_wherever_a_server_repeats_it(pflow, tmp_path):
    marks = tmp_path / "marks"
    code = f"open({str(marks)!r}, 'a').write('x'); print('planted-4711')"
    (tmp_path / "secret.py").write_text(code)
    (tmp_path / "server.py").write_text("import sys; sys.exit('no door ' + sys.argv[1])")
    pflow("settings", "set", "DOOR", "--from-command", f"{sys.executable} {tmp_path / 'secret.py'}")
    pflow("mcp", "add", "house", "--", sys.executable, tmp_path / "server.py", "${DOOR}")
    assert not marks.exists()
    done = pflow("mcp", "sync", "house", "--json")
    assert done.exit_code == 3
    assert "no door ***" in done.stdout
    assert "planted" not in done.stdout + done.stderr
    assert marks.read_text() == "x"
