"""Whatever stands where expressions are expected is checked without raising, and what is sound runs."""

from __future__ import annotations

import json
import time

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.workflow.expressions import expression

texts = st.one_of(
    st.sampled_from(
        ["a.result", "x > 1", "b", "$", "@", "length(x)", "x[?y == $.x].z", "{a: x}", "x ==", "${x}", ""]
    ),
    st.sampled_from(
        ["item", "a.result.a", "a.result.b", "c.case == 'one'", "not_null(c.case, x)", "to_csv(x)"]
    ),
    st.text(alphabet="axy.[]{}()&|'`\"$@<=! 1", max_size=8),
)
anything = st.one_of(
    texts, st.none(), st.integers(), st.lists(texts, max_size=2), st.dictionaries(texts, texts, max_size=2)
)
cases = st.one_of(
    anything,
    st.lists(
        st.one_of(
            anything,
            st.fixed_dictionaries(
                {},
                optional={
                    "when": st.one_of(texts, anything),
                    "action": st.sampled_from(["one", "error", "default"]),
                },
            ),
        ),
        max_size=3,
    ),
)
transforms = st.fixed_dictionaries(
    {},
    optional={
        "expression": st.one_of(texts, anything),
        "outputs": st.one_of(
            anything, st.dictionaries(st.sampled_from(["result", "n", "error"]), texts, max_size=2)
        ),
        "data": st.one_of(st.just("${x}"), anything),
    },
)
whens = st.one_of(st.none(), texts)


def document(shape, chosen, when, edge):
    return {
        "inputs": {"x": {"required": False}},
        "nodes": [
            {"id": "a", "type": "transform", "params": shape},
            {"id": "c", "type": "branch", "params": {"cases": chosen}, "when": when},
            {"id": "b", "type": "echo", "params": {"message": ["${a.result}", "${c.case}"]}},
        ],
        "edges": [
            {"from": "a", "to": "c"},
            {"from": "c", "to": "b", "when": edge},
            {"from": "c", "to": "b", "action": "one"},
        ],
    }


def ended(bench, workflow, x):
    """Return the kind of error with which a run ends, `done` if it succeeds."""
    try:
        outcome = bench.run(workflow, x=x)
    except PflowError as error:
        return error.kind
    return outcome.error.kind if outcome.error else "done"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=150)
@given(shape=transforms, chosen=cases, when=whens, edge=whens, x=anything)
def test_whatever_stands_in_place_of_an_expression_is_refused_or_runs(bench, shape, chosen, when, edge, x):
    workflow = document(shape, chosen, when, edge)
    before = json.dumps(workflow)
    problems = bench.host.runner.validate(workflow)
    bench.host.runner.validate_flows(workflow)
    bench.host.runner.interface(workflow)
    assert json.dumps(workflow) == before
    kind = ended(bench, workflow, x)
    assert (kind == "validation") == any(problem.severity == "error" for problem in problems)
    assert kind in {"validation", "execution", "done"}


STEPS = st.sampled_from(
    """
    [@, @]; {a: @, b: @}; map(&[@, @], @); [][]; *; [*].*; to_json(@); from_json(@); unique(@); sort(@); $; x
    sort_by(@, &@); zip(@, @); group_by(@, &to_json(@)); items(@); to_csv(@); from_csv(@); range(@); sum(@)
    join('', [@, @]); replace(@, 'a', @); split(@, ''); @ == [@]; [?@ == $.x]; map(&sort($.x), @)
    max_by(@, &@); map(&unique($.x), @); [*].to_json($.x); range(length(@))
    """.strip()
    .replace("\n    ", "; ")
    .split("; ")
)
hostile = st.one_of(
    st.lists(STEPS, min_size=1, max_size=25).map(lambda steps: "|".join(["x", *steps])),
    st.builds(lambda step, times: "|".join(["x", *[step] * times]), STEPS, st.integers(10, 50)),
    st.builds(lambda deep: "(" * deep + "x" + ")" * deep, st.integers(50, 1_500)),
    st.builds(lambda deep: "!" * deep + "x", st.integers(50, 3_000)),
)
large = st.sampled_from(
    [
        [*range(2_000)],
        [*"ab" * 1_000],
        [1, "a", None, True, 2.5, [], {}] * 200,
        ["x" * 1_000] * 500,
        "a,b\n1,2\n" * 2_000,
        "[" * 5_000 + "]" * 5_000,
        json.dumps([{"a": number, "b": "\u2028"} for number in range(1_000)]),
        10**400,
        {"a": {"a": [float("inf"), "\ud800"]}},
    ]
)
places = st.sampled_from(["expression", "outputs", "case", "when", "edge"])


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=60,
    deadline=None,
)
@given(text=hostile, place=places, x=large)
def test_a_hostile_expression_is_refused_or_ends_soon_wherever_it_stands(bench, monkeypatch, text, place, x):
    monkeypatch.setattr(expression, "MOST_WORK", 100_000)
    monkeypatch.setattr(expression, "LARGEST", 100_000)
    shape = {"expression": text} if place == "expression" else {"outputs": {"result": text}}
    workflow = document(
        shape if place in ("expression", "outputs") else {"expression": "x"},
        [{"when": text if place == "case" else "false", "action": "one"}],
        text if place == "when" else None,
        text if place == "edge" else None,
    )
    workflow["nodes"][2]["params"] = {"message": "end"}
    began = time.process_time()
    assert ended(bench, workflow, x) in {"validation", "execution", "done"}
    assert time.process_time() - began < 5
