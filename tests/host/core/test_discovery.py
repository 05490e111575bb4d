import sys
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from node_types import ListedNodes, plugin_of

from pflow_mcp_plugin.contract import Discovery, Entry, Match, Sketch
from pflow_mcp_plugin.host.matching import task_words
from pflow_mcp_plugin.host.matching.task_fit import (
    Described,
    NodeConfidence,
    Place,
    TaskFit,
    workflow_confidence,
)
from pflow_mcp_plugin.host.matching.task_words import clause_texts, clauses, roots, words
from pflow_mcp_plugin.host.registry.discovery import described, discover, fitting
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


def test_other_words_for_the_same_are_known_and_signs_of_a_script_without_spaces(find):
    assert find("What is a share worth?", 1) == ["getPrice"]
    assert find("dispatch a mail", 1) == ["send"]
    assert find("给我一个菜谱, please") == ["cook"]


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


def test_a_task_is_taken_apart_into_what_its_clauses_say():
    assert clauses("Get the news, then send it and draw a chart.") == [["news"], ["send"], ["draw", "chart"]]
    assert words("They sold the children's books") == ["sell", "child", "books"]
    assert words("8.8.8.8")[-1] == "ip"
    assert "excel" in words("Read budget.xlsx")


def test_quoted_text_is_never_split_and_an_apostrophe_quotes_nothing():
    task = 'Write "one, two and three" to a file, then run `ls; pwd`'
    assert clause_texts(task) == ['Write "one, two and three" to a file', "then run `ls; pwd`"]
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


MAIL = Described.of(
    "sendMessage", "Send an email message. It may have attachments", Place("family", roots("mail"))
)
CHART = Described.of("drawPie", "Generate a pie chart", Place("parameters", roots("values"), 0.5))
EVERYTHING = [MAIL, CHART, *(Described.of(f"get{n}", f"Get the message of box {n}") for n in range(40))]


CREATE = Described.of("createEvent", "Create an event in the calendar")
DELETE = Described.of("deleteEvent", "Delete an event from the calendar")
KNOWN = [CREATE, DELETE, CHART, *(Described.of(f"get{n}", f"Get the content of box {n}") for n in range(97))]


def fit(task, known=EVERYTHING):
    def frequency(word):
        return sum(roots(word) <= described.roots for described in known)

    return TaskFit(task, len(known), frequency)


def judge(task, described, *rivals):
    return NodeConfidence(fit(task, KNOWN), rivals or KNOWN[:3]).judge(described)


def test_a_part_of_the_task_is_enough_for_a_node_but_not_for_a_workflow():
    both = fit("Generate a pie chart, then send an email message with it")
    for node in (MAIL, CHART):
        assert max(part.degree for part in both.parts(node)) >= 0.95
        assert both.whole(node).degree < 0.6


def test_a_single_common_word_is_a_weak_reason():
    assert fit("a message from outer space").whole(MAIL).degree < 0.3
    assert fit("message").whole(MAIL).degree < 0.6 < fit("pie").whole(CHART).degree


def test_more_than_the_task_is_less_certain_than_the_task_itself():
    more = Described.of("report", "Send an email message to all customers, and delete their accounts")
    task = fit("send an email message")
    assert 0.5 < task.whole(more).degree < 0.95 <= task.whole(MAIL).degree


def test_the_reason_names_the_words_their_place_and_synonyms():
    reason = fit("mail the values as a plot").whole(CHART).reason
    assert '"values" in its parameters' in reason
    assert '"chart" in its description as a synonym of "plot"' in reason
    assert (
        fit("send an attachment").whole(MAIL).reason == '"send" in its name; "attachment" in its description'
    )


@pytest.mark.parametrize(("family", "group"), [("hub", "hub"), ("", "office")])
def test_a_node_without_a_family_belongs_to_the_one_of_its_source(family, group):
    entry = Entry(node="t-x", class_name="X", module="m", description="", source="office", family=family)
    other = {"hub": "office", "office": "hub"}[group]
    assert TaskFit(group, 1, lambda word: 0).whole(described(entry)).degree > 0
    assert TaskFit(other, 1, lambda word: 0).whole(described(entry)).degree == 0


@pytest.mark.parametrize(
    "forms",
    ["summarize summarization", "create creation creator", "manage management", "translate translations"],
)
def test_a_noun_and_its_verb_are_one(forms):
    assert len({frozenset(roots(form)) for form in forms.split()}) == 1


@given(description=st.text(alphabet=st.characters(categories=["L", "N", "P", "Zs"]), min_size=1, max_size=80))
def test_an_exact_description_fits(description):
    described = Described.of("name", description)
    found = TaskFit(description, 1, lambda word: int(roots(word) <= described.roots)).whole(described)
    assert found.degree >= 0.95 or not found.reason


def test_what_alone_does_the_task_is_nearly_certain_and_what_shares_no_word_not_at_all():
    confidence, reason = judge("generate a pie chart", CHART)
    assert confidence >= 0.95
    assert reason == '"generate", "chart" in its description; "pie" in its name'
    assert judge("knit a woollen hat", CHART) == (0.0, "")


def test_what_another_does_better_is_doubtful_and_the_reason_says_so():
    confidence, reason = judge("delete an event from the calendar", CREATE)
    assert confidence < 0.3
    assert reason == '"event" in its name; "calendar" in its description; another fits this better'
    assert judge("delete an event from the calendar", DELETE)[0] >= 0.95


def test_of_two_that_fit_as_well_neither_is_certain():
    for event in (CREATE, DELETE):
        confidence, reason = judge("an event of the calendar", event)
        assert confidence < 0.8
        assert reason.endswith("another fits this as well")


def test_each_clause_of_a_task_is_judged_by_itself():
    task = "Delete an event from the calendar, then generate a pie chart"
    assert judge(task, CHART)[0] >= 0.8
    assert judge(task, DELETE)[0] >= 0.8
    assert judge(task, CREATE)[0] < 0.3


@given(task=st.text(max_size=60), description=st.text(max_size=60))
def test_every_confidence_is_a_share_and_has_a_reason(task, description):
    described = Described.of("name", description)
    confidence, reason = NodeConfidence(TaskFit(task, 1, lambda word: 1), [described, CHART]).judge(described)
    assert 0 <= confidence < 1
    assert bool(confidence) == bool(reason)


def test_a_workflow_is_sure_only_if_it_does_the_whole_task():
    assert workflow_confidence(0.0) == 0.0
    assert workflow_confidence(0.94) < 0.95 <= workflow_confidence(0.95) < workflow_confidence(1.0) == 1.0
