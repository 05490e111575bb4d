"""A browser is opened without a shell, and what it prints goes nowhere."""

from __future__ import annotations

import json
import shlex
import sys
import threading

import pytest
from programs import until

from pflow_mcp_plugin.cli.interaction import has_browser, open_in_browser

SCRIPT = """import json, os, sys
print("noise", flush=True)
print("noise", file=sys.stderr, flush=True)
with open(sys.argv[1] + ".part", "w") as file:
    json.dump(sys.argv[2:], file)
os.rename(sys.argv[1] + ".part", sys.argv[1])
"""
URL = "https://login.example/a?b=$(touch${IFS}x)&c=`id`;d='e'&f=%22"


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """Open a URL, and return the arguments of the browser once it has started."""

    def opened(url, end=" %s"):
        script, seen = tmp_path / "browser.py", tmp_path / "seen.json"
        script.write_text(SCRIPT)
        monkeypatch.setenv("BROWSER", shlex.join([sys.executable, str(script), str(seen)]) + end)
        open_in_browser(url)
        until(seen.exists)
        return json.loads(seen.read_text())

    return opened


@pytest.mark.parametrize("end", [" %s", " %s &"])
def test_a_browser_gets_the_url_as_it_is_and_prints_nothing(opened, capfd, end):
    assert opened(URL, end) == [URL]
    assert capfd.readouterr() == ("", "")


def test_a_url_that_is_too_long_for_a_program_is_not_opened(monkeypatch):
    failed = []
    monkeypatch.setattr("threading.excepthook", failed.append)
    open_in_browser(f"https://login.example/?{'a' * (1 << 22)}")
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(30)
    assert failed == []


@pytest.mark.parametrize("url", ["javascript:alert(1)", "file:///etc/passwd", "", "-version", "calc.exe"])
def test_nothing_but_web_pages_is_opened(url):
    with pytest.raises(ValueError, match="only web pages are opened"):
        open_in_browser(url)


def test_a_module_in_the_current_folder_is_not_imported(opened, tmp_path, monkeypatch):
    (tmp_path / "webbrowser.py").write_text("import pathlib; pathlib.Path('imported').touch()")
    monkeypatch.chdir(tmp_path)
    assert opened("https://login.example/") == ["https://login.example/"]
    assert not (tmp_path / "imported").exists()


@pytest.mark.skipif(sys.platform in ("darwin", "win32"), reason="there they work")
def test_a_browser_is_expected_where_there_is_a_display_or_one_is_named(monkeypatch):
    for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"):
        monkeypatch.delenv(name, raising=False)
    assert not has_browser()
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    assert has_browser()
