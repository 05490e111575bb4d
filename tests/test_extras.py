"""The extras with the libraries themselves: a model that echoes, and a keyring that is a file."""

import json
from pathlib import Path

import pytest

pytest.importorskip("llm_echo", reason="the extra [llm] and its echoing model are not installed")
pytest.importorskip(
    "keyrings.alt", reason="the extra [keyring] and a keyring that is a file are not installed"
)

KEY = "LLM_ECHO_NEEDS_KEY_KEY"


@pytest.fixture
def keys(tmp_path, monkeypatch):
    """Where the keyring keeps its secrets; the libraries see nothing of the user's own."""
    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path / "llm"))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyrings.alt.file.PlaintextKeyring")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for name in (KEY, "PFLOW_DISCOVER_MODEL"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "data" / "python_keyring" / "keyring_pass.cfg"


def echoed(finished):
    """What the model was asked, which is its answer."""
    assert (finished.exit_code, finished.stderr) == (0, "")
    return json.loads(finished.envelope["data"]["outputs"]["response"])


def test_the_node_asks_a_model_of_the_library(pflow, keys):
    asked = ("registry", "run", "llm", "model=echo", "prompt=Say ${this}", "system=Be brief")
    finished = pflow(*asked, 'options={"example_bool": true}', "--json")
    answer = echoed(finished)
    assert (answer["prompt"], answer["system"], answer["stream"]) == ("Say ${this}", "Be brief", False)
    assert answer["options"] == {"example_bool": True}
    assert finished.envelope["data"]["outputs"]["model"] == "echo"
    assert finished.envelope["data"]["outputs"]["usage"]["input"] == 4


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (["model=echo", "temperature=1"], "The model echo does not accept this: temperature: "),
        (["model=echo", 'schema={"type": "object"}'], "does not support schemas"),
        (["model=echo-needs-key"], "No key found"),
    ],
)
def test_a_model_that_cannot_be_asked_says_why(pflow, keys, params, message):
    finished = pflow("registry", "run", "llm", "prompt=Hi", *params)
    assert finished.exit_code != 0
    assert message in finished.stderr


def test_a_key_in_the_keyring_is_found_by_the_model_and_by_no_trace(pflow, keys):
    assert pflow("settings", "set", KEY, "-", "--keyring", stdin="swordfish").exit_code == 0
    assert pflow("settings", "list", "--json").envelope["data"] == [
        {"key": KEY, "value": "****", "place": "keyring"}
    ]
    assert keys.is_file()
    finished = pflow("registry", "run", "llm", "model=echo-needs-key", "prompt=Hi", "--json")
    assert echoed(finished)["key"] == "swordfish"
    assert "swordfish" not in Path(finished.envelope["trace_path"]).read_text(encoding="utf-8")
    assert pflow("settings", "unset", KEY).exit_code == 0
    assert pflow("registry", "run", "llm", "model=echo-needs-key", "prompt=Hi").exit_code != 0


@pytest.mark.parametrize(
    ("backend", "message"),
    [
        ("keyring.backends.null.Keyring", "did not store it"),
        ("no.such.Keyring", "ModuleNotFoundError"),
    ],
)
def test_a_keyring_that_is_off_or_not_there_is_told(pflow, keys, monkeypatch, backend, message):
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", backend)
    finished = pflow("settings", "set", KEY, "a", "--keyring")
    assert finished.exit_code == 2
    assert "The keyring " in finished.stderr
    assert message in finished.stderr
    assert "crashed" not in finished.stderr


def of_files(found):
    """The nodes for files, in the order found; the question to a model names others by common words."""
    return [row["node"] for row in found["data"] if row["node"] in ("read-file", "write-file")]


def test_discover_takes_the_order_of_the_model(pflow, keys):
    # The echo says the task first, and with it the names, the other way round than the words rank them.
    task = ("registry", "discover", "use write-file, not read-file: read the text of a file", "--json")
    by_words = pflow(*task).envelope
    assert of_files(by_words) == ["read-file", "write-file"]
    by_model = pflow(*task, env={"PFLOW_DISCOVER_MODEL": "echo"}).envelope
    assert of_files(by_model) == ["write-file", "read-file"]
    assert (by_words["ranked_by"], by_model["ranked_by"]) == ("words", "echo")


def test_discover_goes_by_the_words_where_the_model_cannot_be_asked(pflow, keys):
    env = {"PFLOW_DISCOVER_MODEL": "echo-needs-key"}
    found = pflow("registry", "discover", "read a file", "--json", env=env).envelope
    assert (found["data"][0]["node"], found["ranked_by"]) == ("read-file", "words")
    assert "echo-needs-key" in found["note"]
