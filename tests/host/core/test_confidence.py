from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin.host.matching.task_fit import (
    _MEASURED,
    _MEASURED_WORKFLOWS,
    Described,
    NodeConfidence,
    TaskFit,
    workflow_confidence,
)
from pflow_mcp_plugin.host.matching.task_words import roots

CREATE = Described.of("createEvent", "Create an event in the calendar")
DELETE = Described.of("deleteEvent", "Delete an event from the calendar")
CHART = Described.of("drawPie", "Generate a pie chart")
KNOWN = [CREATE, DELETE, CHART, *(Described.of(f"get{n}", f"Get the content of box {n}") for n in range(97))]


def judge(task, described, *rivals):
    def frequency(word):
        return sum(roots(word) <= known.roots for known in KNOWN)

    return NodeConfidence(TaskFit(task, len(KNOWN), frequency), rivals or KNOWN[:3]).judge(described)


@pytest.mark.parametrize("table", [_MEASURED, _MEASURED_WORKFLOWS])
def test_more_evidence_never_makes_a_node_less_certain(table):
    for before, after in pairwise(table):
        assert all(0 <= low <= high <= 1 for low, high in zip(before, after, strict=True))


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
    for described in (CREATE, DELETE):
        confidence, reason = judge("an event of the calendar", described)
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
