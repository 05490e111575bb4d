from __future__ import annotations

from types import SimpleNamespace

import pytest

from pflow_mcp_plugin.host.planning.clause_steps import match_of, steps_of
from pflow_mcp_plugin.host.registry.discovery import ClauseNodes


@pytest.fixture
def steps(office):
    """Return the nodes of a task's steps, and what stands in its words for each."""

    def steps(task):
        found = steps_of(task, office.registry)
        return [(step.entry.node.removeprefix("t-"), dict(step.given)) for step in found.steps]

    return steps


def test_each_clause_gets_the_node_that_fits_it_in_the_order_of_the_task(steps):
    found = steps("Get the weather of a city, roll dice, then post a message to the Slack channel")
    assert [node for node, _ in found] == ["weather", "roll-dice", "post-message"]


@pytest.mark.parametrize(
    "task",
    [
        "Before you post a message to Slack, get the weather forecast",
        "Post a message to Slack, but first get the weather forecast",
        "Post a message to Slack. Before that get the weather forecast",
    ],
)
def test_what_happens_first_comes_first(steps, task):
    assert [node for node, _ in steps(task)] == ["weather", "post-message"]


def test_words_that_only_say_when_are_no_step(office):
    task = "First, get the first weather forecast; next, roll dice. Finally, post a message to Slack"
    found = steps_of(task, office.registry)
    assert [step.clause for step in found.steps] == [
        "get the first weather forecast",
        "roll dice",
        "post a message to Slack",
    ]
    assert found.left_out == []


def test_a_clause_that_an_earlier_step_does_too_adds_none(steps):
    assert steps("Get the weather forecast, the weather in a city") == [("weather", {})]


def test_a_clause_with_another_value_is_another_step(steps):
    found = steps("Fetch the web page https://x.org/1, fetch the web page https://x.org/2")
    assert found == [("fetch-page", {"url": "https://x.org/1"}), ("fetch-page", {"url": "https://x.org/2"})]


def test_a_value_of_a_clause_that_nothing_fits_goes_to_the_next_step(steps):
    assert steps("Here is https://x.org: fetch the web page") == [("fetch-page", {"url": "https://x.org"})]


def test_a_value_at_the_end_goes_to_the_last_step(steps):
    assert steps("Fetch the web page: https://x.org") == [("fetch-page", {"url": "https://x.org"})]


@pytest.mark.parametrize(
    "task", ["write to the city", "fetch it", "Weather of the file world", "print the shell"]
)
def test_nodes_of_the_host_are_not_chosen_for_a_word_alone(steps, task):
    assert not {node for node, _ in steps(task)} & {"write-file", "read-file", "llm", "echo"}


@pytest.mark.parametrize(
    ("first", "other", "chosen"),
    [(0.1, 0.31, "t-weather"), (0.11, 0.31, "t-fetch-page"), (0.05, 0.2, "t-fetch-page"), (0.01, 0.04, None)],
)
def test_the_first_node_gives_way_to_one_that_is_far_surer(office, first, other, chosen):
    found = [
        match_of(office.registry.get(node), sure)
        for node, sure in (("t-fetch-page", first), ("t-weather", other))
    ]
    clauses = [ClauseNodes(text="look", matches=found)]
    registry = SimpleNamespace(discovered_by_clause=lambda task, most: clauses, find=office.registry.find)
    assert [step.entry.node for step in steps_of("look", registry).steps] == ([chosen] if chosen else [])


def test_a_tool_that_surely_does_it_comes_before_a_node_of_the_host(bench, office):
    bench.known.clear()
    bench.declare("t-translate-text", ["text: str!"])
    found = steps_of("translate text", office.registry).steps
    assert [step.entry.node for step in found] == ["t-translate-text"]


def test_what_was_considered_is_listed_best_first(office):
    found = steps_of("Get the weather, roll dice", office.registry).considered
    assert {"t-weather", "t-roll-dice"} <= {match.item.entry.node for match in found}
    assert [match.confidence for match in found] == sorted((it.confidence for it in found), reverse=True)
