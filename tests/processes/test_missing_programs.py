"""Programs that are installed, but not on PATH."""

import os
import sys
import time

import pytest

from pflow_mcp_plugin.processes import missing_programs


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty home, with nothing of the user's in the environment."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", "")
    for name in ("NVM_DIR", "FNM_DIR", "VOLTA_HOME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def program(path, text="#!/bin/sh\n"):
    path.parent.mkdir(parents=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("source", "folder"),
    [
        ("nvm", ".nvm/versions/node/v20.1.0/bin"),
        ("fnm", ".local/share/fnm/node-versions/v20.1.0/installation/bin"),
        ("volta", ".volta/bin"),
        ("mise", ".local/share/mise/shims"),
        ("~/.local/bin", ".local/bin"),
        ("Cargo", ".cargo/bin"),
    ],
)
def test_the_folders_of_version_managers_are_known(home, source, folder):
    path = program(home / folder / "acme-npx")
    found = missing_programs.find("acme-npx")
    assert (found.path, found.source) == (str(path), source)


def test_the_newest_version_wins_also_where_a_version_manager_is_elsewhere(home, monkeypatch):
    monkeypatch.setenv("NVM_DIR", str(home / "tools"))
    for version in ("v9.0.0", "v20.1.0", "v18.9.9"):
        program(home / "tools/versions/node" / version / "bin" / "acme-npx")
    assert "v20.1.0" in missing_programs.find("acme-npx").path


def test_a_script_needs_its_folder_on_path_and_a_binary_does_not(home):
    script = program(home / ".volta/bin/acme-npx", "#!/usr/bin/env node\n")
    assert missing_programs.find("acme-npx").env == {"PATH": f"{script.parent}:${{PATH}}"}
    program(home / ".cargo/bin/acme-uvx")
    assert missing_programs.find("acme-uvx").env == {}


def test_what_only_a_login_shell_finds_is_found(home, monkeypatch, capfd):
    path = program(home / "hidden/acme-npx")
    (home / ".profile").write_text(f'echo "Welcome!" | tee /dev/stderr\nexport PATH="{path.parent}:$PATH"\n')
    monkeypatch.setenv("SHELL", "/bin/bash")
    found = missing_programs.find("acme-npx")
    assert capfd.readouterr() == ("", "")
    assert (found.path, found.source) == (str(path), "your login shell")
    assert missing_programs.find("acme-npx", ask_shell=False) is None
    assert missing_programs.find("acme-none") is None


def test_what_only_an_interactive_shell_finds_is_found(home, monkeypatch):
    path = program(home / "hidden/acme-npx")
    (home / ".profile").write_text('. "$HOME/.bashrc"\n')
    (home / ".bashrc").write_text(f'case $- in *i*) PATH="{path.parent}:$PATH";; esac\nalias acme-npx2=x\n')
    monkeypatch.setenv("SHELL", "/bin/bash")
    assert missing_programs.find("acme-npx").path == str(path)
    assert missing_programs.find("acme-npx2") is None


@pytest.mark.parametrize(("name", "mode"), [("odd", 0o755), ("bash", 0o644)])
def test_only_a_known_shell_that_can_be_started_is_asked(home, monkeypatch, name, mode):
    path, asked = program(home / "hidden/acme-npx"), home / "asked"
    shell = program(home / "shells" / name, f"#!/bin/sh\ntouch {asked}; echo {path}\n")
    shell.chmod(mode)
    monkeypatch.setenv("SHELL", str(home / "shells" / name))
    assert missing_programs.find("acme-npx") is None
    assert not asked.exists()


@pytest.mark.parametrize("said", ["acme-npx", "{home}/hidden/other", "{home}/hidden/locked/acme-npx"])
def test_what_a_login_shell_says_counts_only_if_it_is_the_path_of_that_program(home, monkeypatch, said):
    program(home / "hidden/other")
    program(home / "hidden/locked/acme-npx").chmod(0o644)
    shell = program(home / "shells/bash", f"#!/bin/sh\necho '{said.format(home=home)}'\n")
    monkeypatch.setenv("SHELL", str(shell))
    monkeypatch.chdir(home)
    assert missing_programs.find("acme-npx") is None


def test_a_login_shell_reads_nothing_of_what_is_typed(home, monkeypatch):
    path = program(home / "hidden/acme-npx")
    shell = program(home / "shells/bash", f"#!/bin/sh\ncat\necho {path}\n")
    reading, writing = os.pipe()  # from which it would wait for an end
    before = os.dup(0)
    os.dup2(reading, 0)
    try:
        monkeypatch.setenv("SHELL", str(shell))
        monkeypatch.setattr(missing_programs, "_SHELL_SECONDS", 5)
        assert missing_programs.find("acme-npx").path == str(path)
    finally:
        os.dup2(before, 0)
        for descriptor in (reading, writing, before):
            os.close(descriptor)


def test_a_login_shell_that_hangs_is_ended(home, monkeypatch):
    (home / ".profile").write_text("sleep 60 & sleep 61\n")
    monkeypatch.setenv("SHELL", "/bin/bash")
    monkeypatch.setattr(missing_programs, "_SHELL_SECONDS", 0.3)
    began = time.monotonic()
    assert missing_programs.find("acme-npx") is None
    assert time.monotonic() - began < 20


def test_the_remedy_gives_the_full_path_or_where_to_get_it(home):
    path = program(home / ".volta/bin/acme-npx", "#!/usr/bin/env node\n")
    assert missing_programs.find("./acme-npx") is None  # a path is not looked for
    remedy = missing_programs.remedy("acme-npx")
    assert "volta" in remedy
    assert str(path) in remedy
    assert f"{path.parent}{os.pathsep}${{PATH}}" in remedy
    assert missing_programs.remedy("acme-none") == ""
    for name in ("npx", "uvx", "docker", "/usr/bin/npx"):
        assert "https://" in missing_programs.where_to_get(name)
    assert sys.platform == "darwin" or "Homebrew" in missing_programs.where_to_get("npx")
