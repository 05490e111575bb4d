import pytest

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.completion.installation import installation, script


@pytest.fixture
def home(tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for variable in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "ZDOTDIR"):
        monkeypatch.delenv(variable, raising=False)
    return home


def test_fish_finds_its_script_by_itself(home, tmp_path):
    place = installation("fish", tmp_path / "data")
    files = [home / ".config/fish/completions" / name for name in ("pflow.fish", "pflow-mcp.fish")]
    assert place.install() == files
    assert {file.read_text() for file in files} == {script("fish")}
    assert place.install() == []
    assert place.uninstall() == files
    assert place.uninstall() == []


def test_a_block_in_the_startup_file_of_bash_reads_the_script(home, tmp_path):
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


def test_where_zsh_does_not_complete_the_block_starts_that(home, tmp_path):
    place = installation("zsh", tmp_path / "data")
    assert place.install() == [tmp_path / "data/completion/pflow.zsh", home / ".zshrc"]
    assert "compinit" in (home / ".zshrc").read_text()


def test_the_file_of_another_is_not_replaced_or_removed(home, tmp_path):
    other = home / ".config/fish/completions/pflow.fish"
    other.parent.mkdir(parents=True)
    other.write_text("complete -c pflow")
    place = installation("fish", tmp_path / "data")
    with pytest.raises(PflowError, match="did not write it") as caught:
        place.install()
    step = "Move it away, or print the script instead: pflow completion fish"
    assert (caught.value.kind, caught.value.suggestions) == ("config", (step,))
    assert place.uninstall() == []
    assert other.read_text() == "complete -c pflow"
