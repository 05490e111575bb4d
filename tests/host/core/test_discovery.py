import sys
from functools import partial

import pytest
from node_types import ListedNodes, plugin_of

from pflow_mcp_plugin.contract import Discovery, Match, Sketch
from pflow_mcp_plugin.host.matching import task_words
from pflow_mcp_plugin.host.matching.task_words import clause_texts, clauses, words
from pflow_mcp_plugin.host.registry.discovery import discover, fitting
from pflow_mcp_plugin.host.registry.node_index import open_index
from pflow_mcp_plugin.host.stored_settings import StoredSettings


def sketch(server, tool, description, *params):
    return Sketch(
        node=f"t-{server}-{tool.lower()}",
        description=description,
        params=dict.fromkeys(params, ""),
        labels={"server": server, "tool": tool},
        family=server,
        local_name=tool,
        source="t",
    )


OFFICE = [
    sketch("bank", "getPayouts", "Get dividends for a stock", "symbol"),
    sketch("bank", "getPrice", "Get the current stock price", "symbol"),
    sketch("charts", "drawBars", "Generate a bar chart", "values"),
    sketch("charts", "drawPie", "Generate a pie chart", "values"),
    sketch("mail", "send", "Send an email message", "to", "subject"),
    sketch("recipes", "cook", "查询菜谱的完整详情", "name"),
]


@pytest.fixture
def found_among(tmp_path):
    """Return the labels of the nodes among some that discovery finds for a task."""

    def found_among(sketches, task, limit=10, label="tool"):
        index = open_index(tmp_path, "1", lambda: (sketches, True))
        try:
            return [row.labels[label] for row in discover(index, task, limit)]
        finally:
            index.close()

    return found_among


@pytest.fixture
def find(found_among):
    return partial(found_among, OFFICE)


def test_each_part_of_a_task_gets_its_node(find):
    found = find("Which dividends does Coca-Cola pay? Show them as a bar chart, then notify my boss.", 4)
    assert {"getPayouts", "drawBars", "send"} <= set(found)


def test_other_words_for_the_same_are_known(find):
    assert find("What is a share worth?", 1) == ["getPrice"]
    assert find("dispatch a mail", 1) == ["send"]


def test_the_company_of_a_node_decides_between_equals(found_among):
    equals = [sketch("bank", "list", "List items"), sketch("zoo", "list", "List items of it")]
    telling = [sketch("zoo", "feed", "Feed the lions and tigers"), sketch("bank", "pay", "Pay a bill")]
    task = "list the items, feed the lions"
    assert found_among(equals + telling, task, 2, "server")[1] == "zoo"


def test_a_twin_on_another_server_comes_after_what_else_fits(found_among):
    twins = [sketch(f"disk{number}", "readFile", "Read a text file") for number in range(5)]
    found = found_among([*twins, sketch("disk0", "fileSize", "Size of a file")], "read the text file", 3)
    assert found.count("fileSize") == 1


@pytest.mark.parametrize("task", ["", "?!", "the of and", '") * ^ {:-', "\udcff zzz", "'a" * 9_000])
def test_a_task_that_says_nothing_finds_nothing(find, task):
    assert find(task) == []


def test_a_script_without_spaces_is_found_by_its_signs(find):
    assert find("给我一个菜谱, please") == ["cook"]


def test_a_task_is_taken_apart_into_what_its_clauses_say():
    assert clauses("Get the news, then send it and draw a chart.") == [["news"], ["send"], ["draw", "chart"]]
    assert words("They sold the children's books") == ["sell", "child", "books"]
    assert words("8.8.8.8")[-1] == "ip"
    assert "excel" in words("Read budget.xlsx")


def test_quoted_text_is_never_split():
    task = 'Write "one, two and three" to a file, then run `ls; pwd`'
    assert clause_texts(task) == ['Write "one, two and three" to a file', "then run `ls; pwd`"]


def test_an_apostrophe_quotes_nothing():
    assert clause_texts("It's Tom's, and it's Ann's") == ["It's Tom's", "and it's Ann's"]


@pytest.mark.parametrize(
    "forms",
    [
        "copy copies copied copying",
        "cache caches cached caching",
        "tag tags",
    ],
)
def test_the_forms_of_a_word_are_one_to_the_thesaurus(monkeypatch, forms):
    for known in forms.split():
        monkeypatch.setattr(task_words, "_thesaurus", lambda known=known: {task_words.stem(known): "tool"})
        assert [task_words.synonyms(form) for form in forms.split()] == [["tool"]] * len(forms.split())


@pytest.fixture
def office(open_with):
    with open_with(plugin_of(ListedNodes("t", *OFFICE))) as opened:
        yield opened.host.registry


def test_a_model_that_the_user_chose_puts_the_nodes_in_order(office, model):
    found = office.discovered("price of a stock as a chart", 3)
    assert [match.item.row.node for match in found.matches][:2] == ["t-charts-drawpie", "t-bank-getprice"]
    assert (found.ranked_by, found.note, len(found.matches)) == ("sage", "", 3)
    assert "price of a stock as a chart" in model.asked
    assert [match.item.node for match in office.discover("stock chart", 1).matches] == ["t-charts-drawpie"]


def test_the_model_is_given_the_key_that_the_settings_keep(office, model, home, monkeypatch):
    monkeypatch.delenv("SAGE_KEY", raising=False)
    office.discovered("price of a stock", 1)
    assert model.key is None
    StoredSettings(home / "config" / "settings.json").set("SAGE_KEY", "swordfish")
    office.discovered("price of a stock", 1)
    assert model.key == "swordfish"
    monkeypatch.setenv("SAGE_KEY", "of the environment, which the library reads itself")
    office.discovered("price of a stock", 1)
    assert model.key is None


@pytest.mark.parametrize(("name", "installed"), [("unknown", True), ("sage", False)])
def test_a_model_that_cannot_be_asked_is_noted_and_the_words_decide(
    office, model, monkeypatch, name, installed
):
    monkeypatch.setenv("PFLOW_DISCOVER_MODEL", name)
    if not installed:
        monkeypatch.setitem(sys.modules, "llm", None)
    found = office.discovered("price of a stock", 1)
    assert found.matches[0].item.row.node == "t-bank-getprice"
    assert found.ranked_by == "words"
    assert name in found.note


@pytest.mark.parametrize("answer", ["Use t-charts-drawpie.", "1) **t-charts-drawpie**, t-charts-drawpie-2"])
def test_a_name_is_found_wherever_it_stands_in_the_answer(office, model, answer):
    model.answer = answer
    found = office.discovered("price of a stock as a chart", 3)
    assert (found.matches[0].item.row.node, found.ranked_by, found.note) == ("t-charts-drawpie", "sage", "")


@pytest.mark.parametrize("answer", ["", "I cannot help.", "t-charts-drawpie-2", "x.t-charts-drawpie"])
def test_a_model_that_names_no_node_is_noted_and_the_words_decide(office, model, monkeypatch, answer):
    model.answer = answer
    found = office.discovered("price of a stock as a chart", 3)
    assert (found.ranked_by, found.note) == ("words", "sage named none of the nodes")
    assert office.discovered("xyzzy", 3).note == ""
    monkeypatch.delenv("PFLOW_DISCOVER_MODEL")
    assert office.discovered("price of a stock as a chart", 3).matches == found.matches


def test_what_hardly_fits_beside_the_best_is_left_out_and_the_most_likely_is_first():
    def found(*confidences, ranked_by="words"):
        matches = [Match(item=str(sure), confidence=sure, reason="") for sure in confidences]
        shown = fitting(Discovery(matches=matches, ranked_by=ranked_by)).matches
        return [match.confidence for match in shown]

    assert found(0.4, 0.95, 0.007, 0.018, 0.02) == [0.95, 0.4, 0.02]
    assert found(0.007, 0.01) == [0.01, 0.007]  # nothing fits well, and nothing much better
    assert found() == []
    assert found(0.0, 0.9, ranked_by="words and embeddings") == [0.0, 0.9]


def test_among_many_nodes_a_word_that_most_have_tells_nothing(found_among):
    many = [sketch("works", f"tool{number}", f"Do the work of desk {number}") for number in range(1_200)]
    assert found_among(many, "work", 5) == []
    assert found_among(many, "the work of desk 77", 1) == ["tool77"]
