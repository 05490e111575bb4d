"""Where the scripts are put; the shells' answers are those of small programs in their place."""

from __future__ import annotations

import os

import pytest

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.completion.installation import installation, script


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home folder, and a PATH on which a test puts its shells."""
    home = tmp_path / "home"
    (tmp_path / "bin").mkdir()
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    for variable in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "ZDOTDIR", "BASH_COMPLETION_USER_DIR"):
        monkeypatch.delenv(variable, raising=False)
    return home


@pytest.fixture
def shell(home, tmp_path):
    """Put a shell on PATH that answers every question with these lines."""

    def put(name, *lines):
        path = tmp_path / "bin" / name
        path.write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in lines))
        path.chmod(0o755)

    return put


def test_fish_finds_its_script_by_itself(home, tmp_path):
    place = installation("fish", tmp_path / "data")
    files = [home / ".config/fish/completions" / name for name in ("pflow.fish", "pflow-mcp.fish")]
    assert place.install() == files
    assert {file.read_text() for file in files} == {script("fish")}
    assert place.install() == []
    assert place.uninstall() == files
    assert place.uninstall() == []


def test_with_bash_completion_the_startup_file_is_left_alone(home, tmp_path, shell):
    shell("bash", "a greeting", "pflow-asks:_comp_load")
    place = installation("bash", tmp_path / "data")
    folder = home / ".local/share/bash-completion/completions"
    assert place.install() == [folder / "pflow", folder / "pflow-mcp"]
    assert not (home / ".bashrc").exists()
    assert place.install() == []
    assert len(place.uninstall()) == 2


def test_without_it_a_block_in_the_startup_file_reads_the_script(home, tmp_path, shell):
    shell("bash", "a greeting")
    rc = home / ".bashrc"
    rc.write_bytes(b"alias x='\xff'")
    rc.chmod(0o640)
    place = installation("bash", tmp_path / "da ta")
    own = tmp_path / "da ta" / "completion" / "pflow.bash"
    assert place.install() == [own, rc]
    assert rc.read_bytes().startswith(b"alias x='\xff'\n\n# >>> completion of pflow >>>\n. '/")
    assert rc.stat().st_mode & 0o777 == 0o640
    assert place.install() == []
    rc.write_bytes(rc.read_bytes() + b"alias y=z\n")
    assert place.install() == [rc]
    assert rc.read_bytes().count(b">>> completion of pflow >>>") == 1
    assert place.uninstall() == [own, rc]
    assert rc.read_bytes() == b"alias x='\xff'\nalias y=z\n"


def test_zsh_gets_its_script_in_the_first_folder_of_the_user_s(home, tmp_path, shell):
    (home / ".zfunc").mkdir()
    (tmp_path / "site").mkdir()
    shell(
        "zsh",
        f"pflow-asks:{tmp_path}/site",
        f"pflow-asks:{home}/.zfunc",
        "pflow-asks:/absent",
        "pflow-asks:.",
    )
    place = installation("zsh", tmp_path / "data")
    assert place.install() == [home / ".zfunc" / "_pflow"]
    assert not (home / ".zshrc").exists()
    assert place.uninstall() == [home / ".zfunc" / "_pflow"]


def test_where_zsh_does_not_complete_the_block_starts_that(home, tmp_path, shell):
    shell("zsh", "a greeting")
    place = installation("zsh", tmp_path / "data")
    assert place.install() == [tmp_path / "data/completion/pflow.zsh", home / ".zshrc"]
    assert "compinit" in (home / ".zshrc").read_text()


def test_the_file_of_another_is_not_replaced_or_removed(home, tmp_path):
    other = home / ".config/fish/completions/pflow.fish"
    other.parent.mkdir(parents=True)
    other.write_text("complete -c pflow")
    place = installation("fish", tmp_path / "data")
    with pytest.raises(PflowError, match="did not write it"):
        place.install()
    assert place.uninstall() == []
    assert other.read_text() == "complete -c pflow"


def test_a_shell_that_is_not_installed_is_named(home, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(PflowError, match="zsh is not installed"):
        installation("zsh", tmp_path / "data")
