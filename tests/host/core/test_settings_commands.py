import json
from pathlib import Path

import pytest
from programs import importing

KEYRING = """
import json, os, pathlib

def _file():
    return pathlib.Path(os.environ["FAKE_KEYRING"])

def _data():
    return json.loads(_file().read_text()) if _file().exists() else {}

def get_password(service, key):
    return _data().get(f"{service}/{key}")

def set_password(service, key, value):
    _file().write_text(json.dumps({**_data(), f"{service}/{key}": value}))

def delete_password(service, key):
    data = _data()
    del data[f"{service}/{key}"]
    _file().write_text(json.dumps(data))
"""


@pytest.fixture
def keyring(tmp_path):
    room = tmp_path / "site" / "keyring"
    room.mkdir(parents=True)
    (room / "__init__.py").write_text(KEYRING)
    (room / "errors.py").write_text("class KeyringError(Exception): pass\n")
    return {**importing(tmp_path / "site"), "FAKE_KEYRING": str(tmp_path / "keys.json")}


def test_a_value_is_kept_where_only_its_owner_reads_it_and_masked_when_shown(pflow, pflow_home):
    assert pflow("settings", "set", "TOKEN", "swordfish").exit_code == 0
    path = pflow_home / "config" / "settings.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert pflow("settings", "get", "TOKEN").stdout == "****\n"
    assert pflow("settings", "get", "TOKEN", "--show").stdout == "swordfish\n"
    assert "swordfish" not in pflow("settings", "list").stdout
    data = pflow("settings", "get", "TOKEN", "--json").envelope["data"]
    assert data == {"key": "TOKEN", "value": "****", "masked": True}
    assert pflow("settings", "unset", "TOKEN").exit_code == 0
    assert pflow("settings", "list", "--json").envelope["data"] == []


def test_a_value_that_is_no_secret_is_shown_until_it_is_set_without_saying_so(pflow, pflow_home):
    assert pflow("settings", "set", "BASE_URL", "https://a.example/", "--plain").exit_code == 0
    assert pflow("settings", "set", "OTHER", "private").exit_code == 0
    assert pflow("settings", "get", "BASE_URL").stdout == "https://a.example/\n"
    listed = pflow("settings", "list", "--json").envelope["data"]
    assert [row["value"] for row in listed] == ["https://a.example/", "****"]
    stored = json.loads((pflow_home / "config" / "settings.json").read_text())
    assert stored["plain"] == ["BASE_URL"]
    assert pflow("settings", "set", "BASE_URL", "private").exit_code == 0
    assert pflow("settings", "get", "BASE_URL").stdout == "****\n"


@pytest.mark.parametrize("other", [("x", "--keyring"), ("--from-command", "printf x")])
def test_only_a_value_in_the_file_is_marked_as_no_secret(pflow, other):
    assert pflow("settings", "set", "KEY", *other, "--plain").exit_code == 2


def test_a_value_after_an_equals_sign_says_how_it_is_written_and_is_not_repeated(pflow):
    refused = pflow("settings", "set", "TOKEN=swordfish")
    assert refused.exit_code == 2
    assert "pflow settings set TOKEN VALUE" in refused.stderr
    assert "swordfish" not in refused.stderr


def test_a_value_can_be_piped_in_and_nothing_is_no_value(pflow):
    pflow("settings", "set", "TOKEN", "-", stdin="sword fish\n")
    refused = pflow("settings", "set", "TOKEN", "-", stdin="\n")
    assert refused.exit_code == 2
    assert "Standard input is empty" in refused.stderr
    assert pflow("settings", "get", "TOKEN", "--show").stdout == "sword fish\n"


def test_a_value_that_is_not_utf_8_is_refused(pflow, pflow_home):
    refused = pflow("settings", "set", "KEY", "k\udce4se")
    assert refused.exit_code == 2
    assert "The value of KEY is not UTF-8 text" in refused.stderr
    assert not (pflow_home / "config" / "settings.json").exists()


def test_a_key_that_is_not_set_is_not_found_and_the_closest_is_named(pflow):
    pflow("settings", "set", "TOKEN", "a")
    for command in ("get", "unset"):
        finished = pflow("settings", command, "TOKN", "--json")
        assert finished.exit_code == 2
        assert finished.envelope["error"]["type"] == "not_found"
        assert finished.envelope["error"]["suggestions"] == ["Did you mean TOKEN?"]


def test_a_key_that_no_reference_could_spell_is_refused(pflow, pflow_home):
    assert pflow("settings", "set", "A B", "x").exit_code == 2
    assert not (pflow_home / "config" / "settings.json").exists()


def test_what_others_put_into_the_file_survives(pflow, pflow_home):
    path = pflow_home / "config" / "settings.json"
    path.parent.mkdir()
    path.write_text('{"env": {"A": "1"}, "theirs": [1]}')
    path.chmod(0o600)
    pflow("settings", "set", "B", "2")
    data = json.loads(path.read_text())
    assert data["env"] == {"A": "1", "B": "2"}
    assert data["theirs"] == [1]


def test_the_keyring_holds_what_it_is_given_and_the_file_only_the_name(pflow, pflow_home, keyring):
    pflow("settings", "set", "TOKEN", "old")
    assert pflow("settings", "set", "TOKEN", "-", "--keyring", stdin="swordfish", env=keyring).exit_code == 0
    assert "swordfish" not in (pflow_home / "config" / "settings.json").read_text()
    assert pflow("settings", "get", "TOKEN", "--show", env=keyring).stdout == "swordfish\n"
    listed = pflow("settings", "list", "--json", env=keyring).envelope["data"]
    assert listed == [{"key": "TOKEN", "value": "****", "place": "keyring"}]
    assert pflow("settings", "set", "TOKEN", "other", env=keyring).exit_code == 0
    assert "swordfish" not in Path(keyring["FAKE_KEYRING"]).read_text()
    assert pflow("settings", "set", "TOKEN", "-", "--keyring", stdin="swordfish", env=keyring).exit_code == 0
    assert pflow("settings", "unset", "TOKEN", env=keyring).exit_code == 0
    assert pflow("settings", "get", "TOKEN", env=keyring).exit_code == 2


@pytest.mark.parametrize(
    ("set_password", "message"),
    [
        ("raise ImportError('no backend')", "The keyring refuses TOKEN: could not be used: ImportError:"),
        ("pass", "The keyring accepted TOKEN but did not store it"),
    ],
)
def test_a_keyring_that_cannot_keep_a_value_is_told(pflow, keyring, tmp_path, set_password, message):
    init = tmp_path / "site" / "keyring" / "__init__.py"
    init.write_text(f"{KEYRING}\ndef set_password(service, key, value): {set_password}\n")
    finished = pflow("settings", "set", "TOKEN", "a", "--keyring", env=keyring)
    assert finished.exit_code == 2
    assert finished.stderr.startswith(f"Error: {message}")
    assert pflow("settings", "list", "--json", env=keyring).envelope["data"] == []


def test_without_the_package_the_keyring_says_what_to_install(pflow, tmp_path):
    # It may be installed all the same, and then keeps the secrets of whoever runs the tests.
    (tmp_path / "keyring.py").write_text("raise ModuleNotFoundError")
    absent = importing(tmp_path)
    finished = pflow("settings", "set", "TOKEN", "a", "--keyring", "--json", env=absent)
    assert finished.exit_code == 2
    assert finished.envelope["error"]["suggestions"] == ["pip install 'pflow-mcp[keyring]'"]
