from pflow_mcp_plugin.host.completion.shell_reply import path_names


def names(typed, **options):
    return [(each.value, each.type) for each in path_names(typed, **options)]


def test_paths_are_those_that_begin_as_typed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "notes.txt").touch()
    (tmp_path / ".hidden").touch()
    (tmp_path / "new" / "inner").mkdir(parents=True)
    assert names("n") == [("new/", "stem"), ("notes.txt", "plain")]
    assert names("") == names("n")
    assert names(".h") == [(".hidden", "plain")]
    assert names("new/") == [("new/inner/", "stem")]
    assert names("~/no") == [("~/notes.txt", "plain")]
    assert names("", folders_only=True) == [("new/", "stem")]
    assert names("absent/") == []
