import pytest
from system_limits import ordinary_user

from pflow_mcp_plugin.host.stored_settings import StoredSettings
from pflow_mcp_plugin.storage import CorruptFile


def test_a_value_is_read_as_text_and_seen_when_it_changes(tmp_path):
    settings = StoredSettings(tmp_path / "settings.json")
    assert settings.get("TOKEN") is None
    settings.store.update(lambda data: data.update(env={"TOKEN": "t", "PORT": 80, "NONE": None}))
    assert [settings.get(key) for key in ("TOKEN", "PORT", "NONE")] == ["t", "80", None]


@pytest.mark.parametrize("content", ["{oops", '{"env": []}'])
def test_corrupt_settings_are_refused_and_left_as_they_are(tmp_path, content):
    path = tmp_path / "settings.json"
    path.write_text(content)
    path.chmod(0o600)
    for use in (
        lambda settings: settings.get("TOKEN"),
        lambda settings: settings.set("TOKEN", "t"),
        lambda settings: settings.set_command("TOKEN", ["pass", "show"]),
        lambda settings: settings.unset("TOKEN"),
        StoredSettings.values,
        StoredSettings.names,
    ):
        with pytest.raises(CorruptFile):
            use(StoredSettings(path))
    assert path.read_text() == content
    assert [problem.severity for problem in StoredSettings(path).check()] == ["error"]


def test_settings_that_others_can_read_are_warned_about(tmp_path):
    path = tmp_path / "settings.json"
    path.write_text("{}")
    path.chmod(0o644)
    assert "can be read by others" in StoredSettings(path).check()[0].message


def test_settings_in_a_folder_that_cannot_be_read_are_told_as_such(tmp_path):
    path = tmp_path / "config" / "settings.json"
    path.parent.mkdir(mode=0)
    with ordinary_user():
        [problem] = StoredSettings(path).check()
    assert "could not be read: permission denied" in problem.message


def test_the_fingerprint_changes_with_the_settings_and_at_no_other_time(tmp_path):
    settings = StoredSettings(tmp_path / "settings.json")
    seen = [settings.fingerprint()]
    for change in (
        lambda: settings.set("TOKEN", "a"),
        lambda: settings.set("TOKEN", "b"),
        lambda: settings.unset("TOKEN"),
    ):
        change()
        assert settings.fingerprint() == settings.fingerprint()
        seen.append(settings.fingerprint())
    assert len(set(seen)) == 4
