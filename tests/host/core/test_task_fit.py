import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin.contract import Entry
from pflow_mcp_plugin.host.matching.task_fit import Described, Place, TaskFit
from pflow_mcp_plugin.host.matching.task_words import roots
from pflow_mcp_plugin.host.registry.discovery import described

MAIL = Described.of(
    "sendMessage", "Send an email message. It may have attachments", Place("family", roots("mail"))
)
CHART = Described.of("drawPie", "Generate a pie chart", Place("parameters", roots("values"), 0.5))
EVERYTHING = [MAIL, CHART, *(Described.of(f"get{n}", f"Get the message of box {n}") for n in range(40))]


def fit(task):
    def frequency(word):
        return sum(roots(word) <= described.roots for described in EVERYTHING)

    return TaskFit(task, len(EVERYTHING), frequency)


@pytest.mark.parametrize("described", [MAIL, CHART])
@pytest.mark.parametrize("form", [str, str.upper, lambda text: f"Please, {text}!"])
def test_what_is_asked_for_in_its_own_words_fits(described, form):
    task = form({MAIL: "send an email message", CHART: "generate a pie chart"}[described])
    assert fit(task).whole(described).degree >= 0.95


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
