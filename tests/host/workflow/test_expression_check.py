"""Whatever stands where expressions are expected is checked without raising, and what is sound runs."""

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pflow_mcp_plugin.contract import PflowError

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
