import asyncio
import json
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType

import pocketflow
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from workflow_parts import edge, flow, step, trace_of

from pflow_mcp_plugin.contract import EXIT_CODES, PflowError, Problem

Unreachable = partial(PflowError, kind="connection")
GIVE = step("a", "t-give", {"value": 1})


@pytest.fixture
def give(bench):
    @bench.acts("t-give", ["value"], ["value"])
    def give_node(shared, params):
        shared["value"] = params.get("value", shared.get("value"))


@pytest.fixture
def fail(bench):
    raising = [ValueError("out of paper")]

    @bench.acts("t-fail")
    def fail_node(shared, params):
        raise raising[0]

    return raising


def test_a_chain_runs_in_order_and_hands_values_on_with_their_types(bench, give):
    workflow = flow(
        step("one", "t-give", {"value": {"n": [1, 2.5, None]}}),
        step("two", "t-give", {"value": ["${one.value.n[1]}", "n is ${one.value.n}"]}),
        outputs={"all": "${two.value}", "first": {"source": "${one.value.n[0]}"}},
    )
    outcome = bench.run(workflow)
    assert outcome.outputs == {"all": [2.5, "n is [1, 2.5, null]"], "first": 1}
    assert (outcome.steps, outcome.exit_code, outcome.error) == (2, 0, None)


def test_the_workflow_and_its_params_are_left_as_they_were(bench):
    @bench.acts("t-spoil", ["items"], ["items"])
    def spoil(shared, params):
        params["items"].append("spoiled")
        shared["items"] = params["items"]

    workflow = flow(step("a", "t-spoil", {"items": ["x"]}))
    assert bench.run(workflow).outputs == {"items": ["x", "spoiled"]}
    assert workflow == flow(step("a", "t-spoil", {"items": ["x"]}))
    twice = step("b", "t-spoil", {"items": "${a.items}"}, batch={"items": [1, 2]})
    outputs = {"before": "${a.items}", "after": "${b.results}"}
    spoilt = {"items": ["x", "spoiled", "spoiled"]}
    ran = bench.run(flow(*workflow["nodes"], twice, outputs=outputs))
    assert ran.outputs == {"before": ["x", "spoiled"], "after": [spoilt, spoilt]}


def test_a_value_that_contains_itself_is_passed_on_as_it_is(bench):
    @bench.acts("t-loop", ["value"], ["value"])
    def loop(shared, params):
        shared["value"] = value = params.get("value") or [1]
        value[1:] = [value]

    outputs = {"kept": "${b.value[1][1][0]}"}
    assert bench.run(
        flow(step("a", "t-loop"), step("b", "t-loop", {"value": "${a.value}"}), outputs=outputs)
    ).outputs == {"kept": 1}


def test_an_async_node_runs_too(bench):
    @bench.node("t-later", outputs=["done"])
    class Later(pocketflow.AsyncNode):
        async def exec_async(self, prep_res):
            await asyncio.sleep(0)
            return True

        async def post_async(self, shared, prep_res, exec_res):
            shared["done"] = exec_res

    async def inside_a_loop():
        return bench.run(flow(step("l", "t-later")))

    assert bench.run(flow(step("l", "t-later"))).outputs == {"done": True}
    assert asyncio.run(inside_a_loop()).outputs == {"done": True}


@pytest.mark.parametrize("retries", [0, 5])
def test_a_node_is_attempted_once_whatever_it_asks_for(bench, retries):
    calls = []

    @bench.node("t-again")
    class Again(pocketflow.Node):
        def __init__(self):
            super().__init__(max_retries=retries)

        def exec(self, prep_res):
            calls.append(1)
            raise OSError("no")

    assert not bench.run(flow(step("a", "t-again"))).success
    assert calls == [1]


def test_a_value_that_does_not_fit_names_node_parameter_expected_and_given(bench, give):
    bench.node("t-typed", ["n: int"])(pocketflow.Node)
    given = step("a", "t-give", {"value": "many"})
    outcome = bench.run(flow(given, step("b", "t-typed", {"n": "${a.value}"})))
    told = 'Node b (t-typed) failed: parameter n must be int, got str "many"'
    assert (outcome.error.message.splitlines()[0], outcome.exit_code) == (told, 1)


def test_a_missing_value_names_node_parameter_template_and_what_is_there(bench, give):
    bench.declare("t-give", ["value"], ["value", "extra"])
    workflow = flow(GIVE, step("b", "t-give", {"value": "${a.extra}"}))
    failed = bench.run(workflow).error.message.splitlines()[0]
    assert failed == "Node b (t-give) failed: parameter value needs ${a.extra}, but a has value"
    permissive = bench.run({**workflow, "template_resolution_mode": "permissive"})
    assert permissive.outputs == {"value": "${a.extra}"}


@pytest.mark.parametrize(("given", "taken"), [("5", 5), (5.0, 5), ("many", "many")])
@pytest.mark.parametrize("mapped", [False, True])
def test_an_argument_from_the_shared_store_takes_its_declared_type_where_it_fits(bench, given, taken, mapped):
    bench.acts("t-take", ["n: int"], ["taken"])(lambda shared, params: shared.update(taken=shared["n"]))
    name = "other" if mapped else "n"
    workflow = flow(
        step("t", "t-take"),
        enable_namespacing=False,
        mappings={"t": {"input_mappings": {"n": "other"}}} if mapped else {},
        outputs={"taken": "${taken}", "there": f"${{{name}}}"},
    )
    outcome = bench.run(workflow, **{name: given})
    assert outcome.outputs == {"taken": taken, "there": given}


def test_an_output_that_is_not_there_is_told_with_what_was_done(bench, give):
    outcome = bench.run(flow(step("a", "t-give", {"value": [1]}), outputs={"o": "${a.value[3]}"}))
    told = "output o needs ${a.value[3]}, but a.value has [0]\nDone before it: a (t-give)"
    assert (outcome.error.message, outcome.error.details["done"], outcome.exit_code) == (told, ["a"], 1)


@pytest.mark.parametrize("value", ["${x}", "the ${x}"])
def test_an_optional_input_that_is_needed_after_all_is_named(bench, give, value):
    bench.declare("t-give", ["value: any!"], ["value"])
    inputs = {"x": {"type": "str", "required": False}}
    error = bench.run(flow(step("a", "t-give", {"value": value}), inputs=inputs)).error
    assert error.message.startswith("Node a (t-give) failed: parameter value needs ${x}, but the run was not")
    assert error.details["input"] == "x"
    assert error.suggestions == ("Pass x=..., or give the input a default",)
    # One that is left out whole is taken from the store if it has it.
    outcome = bench.run(flow(step("a", "t-give", {"value": value}), inputs={**inputs, "value": {}}), value=1)
    assert (outcome.outputs == {"value": 1}) == (value == "${x}")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("str", "half \ud83d"),
        ("any", ["ü", {"deep": "half \ud83d"}]),
        ("dict", {"half \ud83d": 1}),
        ("list", r'["half \ud83d"]'),
    ],
)
def test_an_input_with_half_of_a_character_is_refused_by_name(bench, kind, value):
    workflow = flow(step("a", "echo", {"message": "${x}"}), inputs={"x": {"type": kind}})
    with pytest.raises(PflowError) as caught:
        bench.run(workflow, x=value)
    assert caught.value.exit_code == 2
    assert r"Input x has '\ud83d', half of a character, which UTF-8 cannot hold" in caught.value.message


def test_an_input_may_be_the_name_of_a_file_that_is_not_utf_8(bench):
    workflow = flow(step("a", "echo", {"message": "${x}"}), inputs={"x": {"type": "str"}})
    assert bench.run(workflow, x="ü\udcff").outputs == {"message": "ü\udcff"}


UNSAYABLE = {"round": {}, "keyed by a pair": {(1, 2): 3}, "endless": 10**5000, "list": [10**5000]}
UNSAYABLE["round"]["itself"] = UNSAYABLE["round"]


@pytest.mark.parametrize(
    ("name", "use"), [*((name, "${a.value}") for name in UNSAYABLE), ("round", "text ${a.value}")]
)
def test_a_value_that_json_cannot_say_fails_the_node_that_needs_it_as_text(bench, name, use):
    bench.acts("t-make", outputs=["value"])(lambda shared, params: shared.update(value=UNSAYABLE[name]))
    bench.node("t-use", ["n: str"])(pocketflow.Node)
    outcome = bench.run(flow(step("a", "t-make"), step("b", "t-use", {"n": use})))
    assert outcome.error.message.startswith("Node b (t-use) failed: ")
    assert len(outcome.error.message) < 200
    assert outcome.trace_path.stat().st_size < 10_000


@pytest.mark.parametrize("kind", ["connection", "config"])
def test_a_failure_has_an_exit_code_of_its_kind_only_before_any_node_has_run(bench, give, fail, kind):
    fail[0], code = PflowError("no server", kind=kind), EXIT_CODES[kind]
    failing = step("f", "t-fail")
    assert bench.run(flow(failing)).exit_code == code
    assert bench.run(flow({**GIVE, "id": "before"}, failing)).exit_code == 1
    routed = flow(failing, {**failing, "id": "g"}, edges=[edge("f", "g", "error")])
    assert bench.run(routed).exit_code == 1

    @contextmanager
    def bad(run):
        raise fail[0]
        yield

    bench.plug(pflow_run_context=bad)
    outcome = bench.run(flow(GIVE))
    assert (outcome.steps, outcome.exit_code, outcome.error.message) == (0, code, "no server")


def test_items_of_a_batch_that_were_done_count_as_run(bench, sent):
    bench.failing = {2: Unreachable("no route")}
    for items, code in (([2], 3), ([1, 2], 1)):
        sends = step("s", "t-send", {"value": "${item}"}, batch={"items": items})
        assert bench.run(flow(sends)).exit_code == code


@pytest.mark.parametrize(
    ("action", "taken"), [("timeout", "timeout"), ("timeout", "error"), ("error", "error")]
)
def test_a_raised_error_takes_the_edge_of_its_action_or_else_of_error(bench, give, fail, action, taken):
    fail[0] = PflowError("too slow", action=action)
    rescue = step("rescue", "t-give", {"value": "after: ${f.error}"})
    outcome = bench.run(flow(step("f", "t-fail"), rescue, edges=[edge("f", "rescue", taken)]))
    assert outcome.outputs == {"value": "after: too slow"}
    failed = trace_of(outcome)["steps"][0]
    assert (failed["action"], failed["outputs"], failed["error"]) == (
        taken,
        {"error": "too slow"},
        "too slow",
    )


@pytest.fixture
def act(bench):
    """A node that returns the action in its params, with an error if it is given one."""

    @bench.acts("t-act", ["action", "error", "raises"], ["value"], actions=("default", "error", "done", "go"))
    def act_node(shared, params):
        shared["error"] = params.get("error")
        if "raises" in params:
            shared["__error__"] = Unreachable(params["raises"], suggestions=("start it",))
        return params.get("action")


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"action": "auth", "error": "no key"}, "no key"),
        ({"action": "auth", "error": "no key", "raises": "server is down"}, "server is down"),
        ({"action": "error"}, "it returned its error action without a reason"),
        ({"action": ["x"]}, "its action must be a string, it returned list"),
        ({"action": "errr"}, "it returned the action errr, which it does not declare and no edge takes"),
    ],
)
def test_a_returned_failure_that_nothing_routes_fails_the_run_with_its_reason(bench, act, params, reason):
    error = bench.run(flow(step("a", "t-act", params))).error
    assert error.message.startswith(f"Node a (t-act) failed: {reason}")
    left_behind = ("connection", ("start it",))
    assert ((error.kind, error.suggestions) == left_behind) == ("raises" in params)


def test_a_declared_output_of_a_node_that_was_recovered_from_is_none(bench, fail, give):
    bench.declare("t-fail", outputs=["value"])
    workflow = flow(
        step("f", "t-fail"),
        step("r", "t-give", {"value": 1}),
        inputs={"name": {"required": False}},
        edges=[edge("f", "r", "error")],
        outputs={"value": "${f.value}", "why": "${f.error}", "name": "${name}", "r": "${r.value}"},
    )
    expected = {"value": None, "why": "ValueError: out of paper", "name": None, "r": 1}
    assert bench.run(workflow).outputs == expected


def test_an_action_without_edge_and_error_ends_the_flow_and_outputs_of_what_did_not_run_are_none(
    bench, act, give
):
    workflow = flow(step("a", "t-act", {"action": "done"}), step("b", "t-give"), outputs={"b": "${b.value}"})
    outcome = bench.run(workflow)
    assert (outcome.success, outcome.steps, outcome.outputs) == (True, 1, {"b": None})


def test_an_endless_loop_is_stopped_and_named(bench, act):
    workflow = flow(
        step("in", "t-act"),
        step("a", "t-act", {"action": "go"}),
        step("b", "t-act"),
        edges=[edge("in", "a"), edge("a", "b", "go"), edge("b", "a")],
    )
    outcome = bench.run_bounded(20, workflow, {})
    assert outcome.steps == 20
    assert outcome.error.message == "The run was stopped after 20 steps in the loop b -> a -> b"
    assert outcome.error.details["loop"] == ["b", "a"]
    assert outcome.error.suggestions[-1].endswith(f": pflow resume {outcome.run_id} --workflow FILE")


def test_a_long_chain_is_no_loop(bench, give):
    outcome = bench.run(flow(*(step(f"n{number}", "t-give", {"value": number}) for number in range(1001))))
    assert outcome.error is None
    assert (outcome.steps, outcome.outputs) == (1001, {"value": 1000})


@pytest.mark.parametrize("where", ["enter", "node", "exit"])
def test_an_interrupt_ends_the_run_cleanly(bench, where):
    events = []

    @contextmanager
    def hold(run):
        if where == "enter":
            raise KeyboardInterrupt
        try:
            yield
        finally:
            events.append(run.cancelled())
            if where == "exit":
                raise KeyboardInterrupt

    @bench.acts("t-stop")
    def stop(shared, params):
        if where == "node":
            raise KeyboardInterrupt

    bench.plug(pflow_run_context=hold)
    outcome = bench.run(flow(step("s", "t-stop")))
    assert (outcome.success, outcome.exit_code, outcome.error.kind) == (False, 130, "interrupted")
    assert events == {"enter": [], "node": [True], "exit": [False]}[where]
    assert trace_of(outcome)["error"]["type"] == "interrupted"
    if where == "node":
        assert trace_of(outcome)["steps"][0]["error"] == "interrupted"


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"volume": 1}, "may not set parameter volume of node a"),
        ({3: 1}, "may not set parameter int of node a"),
        ({"__node_id__": "b"}, "may not set parameter __node_id__ of node a: pflow sets it"),
        (["__a__"], "returned a list as parameters of node a (t-give)"),
    ],
)
def test_a_plugin_may_set_dunder_parameters_only(bench, give, params, words):
    def pushy(node):
        return params

    bench.plug(pflow_inject_params=pushy)
    with pytest.raises(PflowError) as caught:
        bench.run(flow(GIVE))
    assert caught.value.message.startswith(f"Plugin pushy {words}")
    assert caught.value.kind == "config"


def test_each_dunder_parameter_is_set_by_one_plugin(bench, give):
    def second(node):
        return {"__a__": 2}

    bench.plug(pflow_inject_params=lambda node: MappingProxyType({"__a__": 1}))
    (planned,) = bench.host.runner.compile(flow(GIVE)).nodes
    assert planned.ref.injected["__a__"] == 1
    bench.plug(pflow_inject_params=second)
    with pytest.raises(PflowError, match=r"Plugins .* and .* both set __a__ of node a \(t-give\)") as caught:
        bench.run(flow(GIVE))
    assert caught.value.kind == "config"


def test_a_plugin_that_raises_stops_the_compilation_by_name(bench, give):
    def broken(node):
        raise error

    problem = Problem(message="no key", path="x")
    error = Unreachable("no idea", suggestions=("sync",), details={"server": "s"}, problems=(problem,))
    bench.plug(pflow_inject_params=broken)
    words = r"Plugin broken failed to set up node a \(t-give\): "
    with pytest.raises(PflowError, match=f"{words}no idea") as caught:
        bench.run(flow(GIVE))
    assert (caught.value.suggestions, caught.value.kind) == (("sync",), "config")
    assert (caught.value.details, caught.value.problems) == ({"server": "s"}, (problem,))


def test_a_node_class_that_cannot_be_loaded_is_told_before_any_node_runs(bench, give):
    bench.declare("t-gone")
    outcome = bench.run(flow(GIVE, step("g", "t-gone")))
    assert (outcome.steps, outcome.exit_code, outcome.error.kind) == (0, 2, "config")
    assert outcome.error.message.startswith("Node g (t-gone) cannot be loaded from nodes_on_the_bench:t-gone")
    assert outcome.error.details == {"node": "g", "node_type": "t-gone"}
    assert outcome.error.suggestions == ("Reinstall what provides bench nodes",)


def test_a_workflow_with_problems_is_refused_with_all_of_them(bench, give):
    workflow = flow(step("a", "t-give", {"valu": "${m}"}), inputs={"n": {}})
    with pytest.raises(PflowError) as caught:
        bench.run(workflow, mm=1)
    assert caught.value.kind == "validation"
    paths = [problem.path for problem in caught.value.problems]
    assert caught.value.message == "Workflow wf has 4 errors"
    assert paths == ["$.nodes[0].params.valu", "$.nodes[0].params.valu", "$.inputs.mm", "$.inputs.n"]


def test_missing_node_types_alone_are_not_found(bench):
    with pytest.raises(PflowError) as caught:
        bench.run(flow(step("a", "ecko", {"message": 1})))
    assert caught.value.kind == "not_found"
    assert "echo" in caught.value.suggestions[0]


def test_the_trace_holds_each_step_without_secrets_and_at_bounded_size(bench):
    @bench.acts("t-leak", ["text", "items"], ["text", "items", "thing"])
    def leak(shared, params):
        run = shared["__run__"]
        run.add_secrets(["hunter2hunter2"])
        run.annotate(params["__node_id__"], {"server": "s", "token": "hunter2hunter2"})
        shared["text"] = "x" * 1990 + "hunter2hunter2" + "x" * 9000
        shared["items"] = list(range(1_000_000))
        shared["thing"] = Path("/tmp")

    params = {"text": "hunter2hunter2", "items": [1, 2]}
    outcome = bench.run(flow(step("a", "t-leak", params)))
    text = outcome.trace_path.read_text()
    assert "hunter" not in text
    assert len(text) < 300_000
    (traced,) = json.loads(text)["steps"]
    assert traced["details"] == {"server": "s", "token": "***"}
    assert traced["params"] == {"text": "***", "items": [1, 2]}
    assert "(11,004 characters)" in traced["outputs"]["text"]
    assert traced["outputs"]["items"][-1].endswith("more items")
    assert outcome.trace_path.stat().st_mode & 0o777 == 0o600
    assert outcome.trace_path.name == f"{outcome.run_id}.json"


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("str", "canary-4711"),
        ("int", 48392017),
        ("dict", {"user": {"name": "canary-4711", "code": 48392017}}),
        ("list", ["canary-4711", [48392017]]),
    ],
)
def test_a_secret_input_is_in_no_trace_whatever_its_type(bench, kind, value):
    bench.acts("t-tell", ["text", "value: any"], ["seen"])(lambda shared, params: shared.update(seen=params))
    params = {"text": "it is ${pin}", "value": "${pin}"}
    workflow = flow(step("a", "t-tell", params), inputs={"pin": {"type": kind, "secret": True}})
    trace = bench.run(workflow, pin=value).trace_path.read_text()
    assert not [it for it in ("canary-4711", "48392017") if it in trace]


def test_secrets_are_taken_out_of_the_runs_error_and_its_problems(bench):
    @bench.acts("t-problems")
    def problems(shared, params):
        shared["__run__"].add_secrets(["hunter2hunter2"])
        words = dict.fromkeys(("message", "path", "suggestion", "source"), "a hunter2hunter2")
        details = {"key": "hunter2hunter2"}
        raise Unreachable("bad key hunter2hunter2", details=details, problems=(Problem(**words),))

    error = bench.run(flow(step("a", "t-problems"))).error
    assert error.kind == "connection"
    assert str(error.problems[0]) == "a ***: a *** (a ***)"
    assert error.message.endswith("bad key ***")
    assert error.details["key"] == "***"
    assert "hunter2" not in json.dumps(error.to_dict())


def test_the_trace_shows_what_the_run_was_given_as_it_was_then(bench):
    @bench.acts("t-change", ["items"])
    def change(shared, params):
        shared["__run__"].add_secrets(["hush-hush"])
        shared["items"].append("late")

    workflow = flow(
        step("c", "t-change"),
        inputs={"items": {"type": "list"}, "text": {"default": "x" * 1995 + "hush-hush"}},
        outputs={"text": "${text}"},
    )
    inputs = trace_of(bench.run(workflow, items=["early"]))["inputs"]
    assert inputs["items"] == ["early"]
    assert inputs["text"] == "x" * 1995 + "***"


def test_a_step_whose_failure_is_recovered_from_keeps_its_details_and_is_not_done(bench, fail):
    fail[0] = PflowError("no paper", details={"tray": 2})
    nodes = step("first", "t-fail"), step("last", "t-fail")
    outcome = bench.run(flow(*nodes, edges=[edge("first", "last", "error")]))
    assert trace_of(outcome)["steps"][0]["details"] == {"failure": {"tray": 2}}
    assert outcome.error.message == "Node last (t-fail) failed: no paper"
    assert "done" not in outcome.error.details


def test_a_run_without_a_trace_writes_none_and_one_that_cannot_be_written_is_a_warning(bench, give):
    outcome = bench.host.runner.run(flow(GIVE), {}, trace=False)
    assert (outcome.success, outcome.trace_path) == (True, None)
    assert not (bench.host.paths.state / "traces").exists()
    bench.host.paths.state.mkdir(parents=True, exist_ok=True)
    (bench.host.paths.state / "traces").write_text("a file where the folder should be")
    outcome = bench.run(flow(GIVE))
    assert (outcome.success, outcome.trace_path) == (True, None)
    assert any("The trace was not written" in problem.message for problem in bench.warnings)


@pytest.fixture
def any_action(bench):
    """A node whose actions are taken from a list that the test fills, then it takes the default."""
    actions = []

    @bench.acts("t-any", actions=("default", "error", "x", "y", "never"))
    def any_action_node(shared, params):
        return actions.pop(0) if actions else None

    return actions


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    edges=st.dictionaries(
        st.tuples(st.sampled_from("abc"), st.sampled_from(["default", "x", "y"])), st.sampled_from("abc")
    ),
    taken=st.lists(st.sampled_from(["default", "x", "y"]), max_size=12),
)
def test_a_run_takes_exactly_the_way_that_its_actions_say(bench, any_action, edges, taken):
    # What can only go round for ever is refused before it runs.
    edges.pop(("c", "default"), None)
    edges = {
        (one, action): other for (one, action), other in edges.items() if action != "default" or one < other
    }
    drawn = [edge(one, other, action) for (one, action), other in edges.items()]
    nodes = [step(node_id, "t-any") for node_id in "abc"]
    workflow = flow(*nodes, edges=drawn or [edge("a", "b", "never")])
    way, actions = ["a"], iter(taken)
    while len(way) < 30 and (following := edges.get((way[-1], next(actions, "default")))):
        way.append(following)
    any_action[:] = taken
    outcome = bench.run_bounded(30, workflow, {})
    assert [step["id"] for step in trace_of(outcome)["steps"]] == way
    assert outcome.success == (len(way) < 30)


@pytest.fixture
def give_and_hide(bench):
    @bench.acts("t-give", ["value", "count: int", "secret: str"], ["value"])
    def give_node(shared, params):
        shared["__run__"].add_secrets([params.get("secret", "none-at-all")])
        shared["value"] = params.get("value")


def test_samples_are_short_and_without_the_secrets_of_the_run(bench, give_and_hide):
    secret = "s3cret-value-of-a-setting"
    value = {"long": "x" * 90 + secret + "y" * 100, "plain": f"is {secret}"}
    ran = bench.host.runner.run_node("t-give", {"value": value, "secret": secret})
    samples = {place.path: place.sample for place in ran.structure}
    assert "s3cret" not in str(samples)
    assert len(samples["value.long"]) < 110


def test_every_mistake_of_the_params_is_named_and_nothing_runs(bench, give_and_hide):
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(PflowError) as caught:
        bench.host.runner.run_node("t-give", {"valeu": 1, "count": "many", "value": deep})
    assert caught.value.kind == "usage"
    assert "3 problems" in caught.value.message
    assert [(it.message, it.suggestion) for it in caught.value.problems] == [
        ("Node t-give has no parameter valeu", "Did you mean value?"),
        ('Parameter count of node t-give must be int, got str "many"', "Run: pflow registry describe t-give"),
        ("Parameter value of node t-give is nested too deeply", "Flatten it"),
    ]
    assert caught.value.suggestions == ()
    assert not bench.host.traces.paths()
    with pytest.raises(PflowError) as caught:
        bench.host.runner.run_node("t-give", {"valeu": 1})
    assert caught.value.suggestions == ("Did you mean value?",)


def test_a_missing_param_is_refused(bench):
    with pytest.raises(PflowError, match="needs parameter message") as caught:
        bench.host.runner.run_node("echo", {})
    assert caught.value.suggestions == ("Give message=...; run: pflow registry describe echo",)
    bench.declare("t-two", ["one: str!", "two: str!", "three: str"])
    with pytest.raises(PflowError, match=r"needs parameters one, two$") as caught:
        bench.host.runner.run_node("t-two", {"three": "x"})
    assert [it.suggestion[:12] for it in caught.value.problems] == ["Give one=..."]


def test_a_failure_has_a_checkpoint_that_is_short_and_without_secrets(bench, give_and_hide):
    @bench.acts("t-fail")
    def fail(shared, params):
        shared["part"] = "half"
        shared["__run__"].add_secrets(["l4te-secret-value"])
        raise ValueError("no")

    long, batch = "x" * 5_000_000, {"items": [1, 2], "parallel": True}
    nodes = [
        step("a", "t-give", {"value": {"key": "l4te-secret-value", "long": long}}),
        step("b", "t-give", {"value": "${item}"}, batch=batch),
        step("c", "t-fail"),
    ]
    outcome = bench.run(flow(*nodes))
    assert not outcome.success
    assert "l4te-secret-value" not in str(outcome.checkpoint)
    assert len(str(outcome.checkpoint)) < 10_000
    assert set(outcome.checkpoint) == {"a", "b", "c"}
    assert [result["value"] for result in outcome.checkpoint["b"]["results"]] == [1, 2]
    assert outcome.checkpoint["c"]["part"] == "half"
    assert not bench.run(flow(*nodes[:1])).checkpoint
