import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin.contract import Entry
from pflow_mcp_plugin.host.matching.task_fit import (
    Described,
    NodeConfidence,
    Place,
    TaskFit,
    workflow_confidence,
)
from pflow_mcp_plugin.host.matching.task_words import roots
from pflow_mcp_plugin.host.registry.discovery import described

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
    assert max(part.degree for part in both.parts(MAIL)) >= 0.95
    assert max(part.degree for part in both.parts(CHART)) >= 0.95
    assert both.whole(MAIL).degree < 0.6
    assert both.whole(CHART).degree < 0.6


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


def test_what_alone_does_the_task_is_nearly_certain():
    confidence, reason = judge("generate a pie chart", CHART)
    assert confidence >= 0.95
    assert reason == '"generate", "chart" in its description; "pie" in its name'


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


def test_what_shares_no_word_has_no_confidence():
    assert judge("knit a woollen hat", CHART) == (0.0, "")


@given(task=st.text(max_size=60), description=st.text(max_size=60))
def test_every_confidence_is_a_share_and_has_a_reason(task, description):
    described = Described.of("name", description)
    confidence, reason = NodeConfidence(TaskFit(task, 1, lambda word: 1), [described, CHART]).judge(described)
    assert 0 <= confidence < 1
    assert bool(confidence) == bool(reason)


def test_a_workflow_is_sure_only_if_it_does_the_whole_task():
    assert workflow_confidence(0.0) == 0.0
    assert workflow_confidence(0.94) < 0.95 <= workflow_confidence(0.95) < workflow_confidence(1.0) == 1.0
