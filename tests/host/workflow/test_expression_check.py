"""Whatever stands where expressions are expected is checked without raising, and what is sound runs."""

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from workflow_parts import edge, flow, step

from pflow_mcp_plugin.contract import PflowError

texts = st.one_of(
    st.sampled_from(
        [
            *(
                "a.result",
                "x > 1",
                "b",
                "$",
                "@",
                "length(x)",
                "x[?y == $.x].z",
                "{a: x}",
                "x ==",
                "${x}",
                "",
            ),
            *("item", "a.result.a", "a.result.b", "c.case == 'one'", "not_null(c.case, x)", "to_csv(x)"),
        ]
    ),
    st.text(alphabet="axy.[]{}()&|'`\"$@<=! 1", max_size=8),
)
anything = st.one_of(
    texts, st.none(), st.integers(), st.lists(texts, max_size=2), st.dictionaries(texts, texts, max_size=2)
)


def some(**members):
    """Draw objects with some of the members."""
    return st.fixed_dictionaries({}, optional=members)


ways = some(when=texts | anything, action=st.sampled_from(["one", "error", "default"]))
cases = anything | st.lists(anything | ways, max_size=3)
made = st.dictionaries(st.sampled_from(["result", "n", "error"]), texts, max_size=2)
transforms = some(expression=texts | anything, outputs=anything | made, data=st.just("${x}") | anything)
whens = st.one_of(st.none(), texts)


def document(shape, chosen, when, edge_when):
    return flow(
        step("a", "transform", shape),
        step("c", "branch", {"cases": chosen}, when=when),
        step("b", "echo", {"message": ["${a.result}", "${c.case}"]}),
        edges=[edge("a", "c"), edge("c", "b", when=edge_when), edge("c", "b", "one")],
        inputs={"x": {"required": False}},
    )


def ended(bench, workflow, x):
    try:
        outcome = bench.run(workflow, x=x)
    except PflowError as error:
        return error.kind
    return outcome.error.kind if outcome.error else "done"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=60)
@given(shape=transforms, chosen=cases, when=whens, edge_when=whens, x=anything)
def test_whatever_stands_in_place_of_an_expression_is_refused_or_runs(
    bench, shape, chosen, when, edge_when, x
):
    workflow = document(shape, chosen, when, edge_when)
    before = json.dumps(workflow)
    problems = bench.host.runner.validate(workflow)
    bench.host.runner.validate_flows(workflow)
    bench.host.runner.interface(workflow)
    assert json.dumps(workflow) == before
    kind = ended(bench, workflow, x)
    assert (kind == "validation") == any(problem.severity == "error" for problem in problems)
    assert kind in {"validation", "execution", "done"}
