"""Discovery by meaning, with a model of some hundred bytes; `test_sentence_weights` has the real one."""

import importlib.util

import pytest
from node_types import ListedNodes, plugin_of
from tiny_model import write_model

from pflow_mcp_plugin.contract import Sketch
from pflow_mcp_plugin.host.registry import semantic_search
from pflow_mcp_plugin.host.stored_settings import StoredSettings

SETTING = "PFLOW_SEMANTIC_MODEL"
MEANINGS = [("lawyer", "attorney", "hire"), ("barometer", "drizzle"), ("tune", "melody", "hum")]


def sketch(tool, description):
    return Sketch(node=f"t-{tool}", description=description, family="town", local_name=tool)


SAID = {"retain": "Hire an attorney", "outside": "Read the barometer", "hum": "Hum a melody"}
TOOLS = [sketch(*said) for said in SAID.items()]


class Town(ListedNodes):
    """It is closed while it is `broken`."""

    broken = False

    def fingerprint(self):
        return super().fingerprint() + " broken" * self.broken

    def sketches(self):
        if self.broken:
            raise OSError("the town is closed")
        return super().sketches()


@pytest.fixture
def model(tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime", reason="the extra [semantic] is not installed")
    folder = write_model(tmp_path / "model", MEANINGS)
    monkeypatch.setenv(SETTING, str(folder))
    return folder


@pytest.fixture
def town():
    return Town("t", *TOOLS)


@pytest.fixture
def opened(open_with, town):
    with open_with(plugin_of(town)) as opened:
        yield opened


@pytest.fixture
def embedded(monkeypatch):
    """How many nodes were embedded each time, as a terminal is told."""
    counts = []
    monkeypatch.setattr(semantic_search, "is_terminal", lambda _stream: True)
    monkeypatch.setattr(semantic_search, "write", lambda _stream, line: counts.append(int(line.split()[1])))
    return counts


def reopened(opened):
    """Return the registry as another process would see it, with nothing in memory."""
    for part in ("_semantic", "sources"):
        vars(opened.host.registry).pop(part, None)
    opened.host.registry.close()
    return opened.host.registry


def every(opened):
    """How many nodes there are; the host has some of its own."""
    return len(opened.host.registry.rows())


def found(registry, task, limit=1):
    return [match.item.row.node for match in registry.discovered(task, limit).matches]


def test_a_node_that_shares_no_word_with_the_task_is_found_by_its_meaning(opened, model):
    registry = opened.host.registry
    first = registry.discovered("lawyer, drizzle", 2)
    assert {match.item.row.node for match in first.matches} == {"t-retain", "t-outside"}
    assert (first.ranked_by, first.note) == ("words and embeddings", "")
    assert {(match.confidence, match.reason) for match in first.matches} == {(0.0, "similar in meaning")}
    assert [match.item.node for match in registry.discover("tune", 1).matches] == ["t-hum"]


def test_words_and_meaning_both_count_and_scores_fall(opened, model):
    matches = opened.host.registry.discovered("attorney, tune", 3).matches
    assert {match.item.row.node for match in matches[:2]} == {"t-retain", "t-hum"}
    scores = [match.item.row.score for match in matches]
    assert scores == sorted(scores, reverse=True)
    reasons = {match.item.row.node: match.reason for match in matches}
    assert "attorney" in reasons["t-retain"]
    assert reasons["t-hum"] == "similar in meaning"


@pytest.mark.parametrize("task", ["", "?!", "the of and"])
def test_a_task_that_says_nothing_finds_nothing_by_meaning_either(opened, model, task):
    assert found(opened.host.registry, task, 5) == []


def test_a_second_refresh_embeds_nothing_and_a_change_what_changed(opened, model, town, embedded):
    opened.host.refresh("t")
    opened.host.refresh("t")
    reopened(opened).refresh()
    assert embedded == [every(opened)]
    town.found[1] = sketch("outside", "Feel the drizzle")
    reopened(opened).refresh()
    assert embedded == [every(opened), 1]
    assert found(opened.host.registry, "barometer") == ["t-outside"]


def test_the_embeddings_of_removed_nodes_are_removed(opened, model, town, embedded):
    opened.host.refresh("t")
    kept = next((opened.host.paths.cache).glob("embeddings*"))
    before = kept.stat().st_size
    removed = town.found.pop()
    reopened(opened).refresh()
    assert kept.stat().st_size < before
    town.found.append(removed)
    reopened(opened).refresh()
    assert embedded == [every(opened), 1]


def test_only_the_first_of_very_many_nodes_are_embedded(opened, model, embedded, monkeypatch):
    monkeypatch.setattr(semantic_search, "_MOST", 2)
    opened.host.refresh("t")
    assert embedded == [2]
    assert "t-hum" in found(opened.host.registry, "hum", 3)


def test_nodes_of_the_same_text_are_embedded_once(opened, model, town, embedded):
    town.found = [Sketch(node=f"t-{name}", description="Hum", local_name="x") for name in "ab"]
    opened.host.refresh("t")
    assert embedded == [every(opened) - 1]


def test_embeddings_that_are_missing_are_made_for_the_first_task_which_a_terminal_shows(
    opened, model, monkeypatch, capsys
):
    monkeypatch.setenv(SETTING, "off")
    opened.host.refresh("t")
    monkeypatch.setenv(SETTING, str(model))
    monkeypatch.setattr(semantic_search, "is_terminal", lambda stream: True)
    registry = reopened(opened)
    assert found(registry, "tune") == ["t-hum"]
    assert f"Embedding {every(opened)} new or changed nodes" in capsys.readouterr().err
    assert found(registry, "lawyer") == ["t-retain"]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: data.replace(b"embeddings 1", b"embeddings 9"),
    ],
)
def test_a_damaged_file_is_made_anew(opened, model, embedded, damage):
    opened.host.refresh("t")
    path = next(opened.host.paths.cache.glob("embeddings*"))
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    assert found(reopened(opened), "tune") == ["t-hum"]
    assert embedded == [every(opened)] * 2
    assert path.read_bytes() == whole


def test_another_model_embeds_everything_again(opened, model, embedded):
    opened.host.refresh("t")
    write_model(model, [*MEANINGS, ("more",)])
    reopened(opened).refresh()
    assert embedded == [every(opened)] * 2


def test_what_was_embedded_before_an_interruption_is_not_embedded_again(opened, model, embedded, monkeypatch):
    monkeypatch.setattr(semantic_search, "_BATCH", 1)
    search = opened.host.registry._semantic
    embed, done = search.model.embed, []

    def interrupted(texts):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.extend(texts)
        return embed(texts)

    monkeypatch.setattr(search.model, "embed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        opened.host.refresh("t")
    reopened(opened).refresh()
    assert embedded == [every(opened), every(opened) - 2]


def test_a_source_that_fails_for_once_costs_no_embedding(opened, model, town, embedded):
    opened.host.refresh("t")
    town.broken = True
    reopened(opened).refresh()
    town.broken = False
    reopened(opened).refresh()
    assert embedded == [every(opened)]


def test_a_cache_that_cannot_be_written_is_done_without(opened, model):
    cache = opened.host.paths.cache
    cache.parent.mkdir(parents=True, exist_ok=True)
    cache.write_text("a file where the folder should be")
    assert found(opened.host.registry, "tune") == ["t-hum"]


def test_it_can_be_switched_off(opened, model, monkeypatch):
    monkeypatch.setenv(SETTING, "off")
    assert opened.host.registry.discovered("read the tune", 3).ranked_by == "words"
    assert found(opened.host.registry, "tune") == []


def test_the_model_may_be_named_in_the_settings_by_its_file(opened, model, home, monkeypatch):
    monkeypatch.delenv(SETTING)
    StoredSettings(home / "config" / "settings.json").set(SETTING, str(model / "model.onnx"))
    assert found(opened.host.registry, "tune") == ["t-hum"]


@pytest.mark.parametrize("problem", ["missing", "damaged"])
def test_a_model_that_cannot_be_used_is_said_and_the_words_decide(opened, model, problem):
    if problem == "missing":
        (model / "vocab.txt").unlink()
    else:
        (model / "model.onnx").write_bytes(b"no model")
    result = opened.host.registry.discovered("read the barometer", 3)
    assert result.matches[0].item.row.node == "t-outside"
    assert result.ranked_by == "words"
    assert str(model) in result.note
    opened.host.refresh("t")
    assert "Discovery goes by words only: " in opened.messages
    assert str(model) in opened.messages


def test_without_the_extra_one_question_is_asked_and_nothing_changes(opened, monkeypatch):
    asked = []
    monkeypatch.setattr(importlib.util, "find_spec", asked.append)
    monkeypatch.setenv(SETTING, "/no/such/model")
    opened.host.refresh("t")
    result = opened.host.registry.discovered("read the barometer", 3)
    opened.host.registry.discovered("read the barometer", 3)
    assert asked == ["onnxruntime"]
    assert result.matches[0].item.row.node == "t-outside"
    assert (result.ranked_by, result.note) == ("words", "")
    assert not [*opened.host.paths.cache.glob("embeddings*")]
