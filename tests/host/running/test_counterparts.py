"""A step of a resumed run takes the result of its own earlier step, never that of another one like it."""

import pytest
from workflow_parts import edge, flow, step

NO = ValueError("not now")
GO = step("go", "t-send", {"value": "${page}"})
SHOT = step("shot", "t-shot")


def pages(*items, steps=(GO, SHOT), error_handling="continue", **more):
    """Return a workflow that goes to each page, and takes a picture of where it is."""
    inner = flow(*steps, inputs={"page": {}}, **more)
    batch = {"items": list(items), "error_handling": error_handling}
    return flow(step("p", "workflow", {"workflow": inner, "page": "${item}"}, batch=batch))


def in_line(*names):
    """Return a workflow with a node that goes to each page, and one that takes a picture there."""
    steps = (
        step(f"{kind}-{name}", f"t-{kind}", {"value": name} if kind == "send" else {})
        for name in names
        for kind in ("send", "shot")
    )
    return flow(*steps, outputs={name: f"${{shot-{name}.picture}}" for name in names})


@pytest.fixture
def pictures(bench, sent):
    """The pictures that were taken by the nodes `t-shot`, which have no params."""
    taken = []

    def shot(shared, params):
        shared["picture"] = f"picture of {sent[-1]}"
        taken.append(sent[-1])

    bench.acts("t-shot", (), ["picture"])(shot)
    return taken


def shown(report):
    assert report.error is None
    return [it["picture"] for it in report.data["outputs"]["results"]]


@pytest.mark.parametrize("items", ["abc", "aba"])
def test_a_failed_item_that_runs_again_takes_no_result_of_another_item(bench, pictures, resumed, items):
    bench.failing = {"a": [None, NO]}
    report = resumed(bench.run(pages(*items)).run_id, "--only-failed")
    assert shown(report) == [f"picture of {it}" for it in items]
    assert sorted(pictures) == sorted(items)


def test_an_approval_holds_for_its_item_only(bench, pictures, resumed):
    ask = step("ok", "ask", {"question": "Take it?", "choices": ["yes", "no"]})
    bench.failing = {"a": [NO]}
    workflow = pages("a", "b", steps=(GO, ask, SHOT), edges=[edge("go", "ok"), edge("ok", "shot")])
    run = bench.run(workflow).run_id
    assert resumed(run, "--answer", "p[1]/ok=yes").error is None
    report = resumed(run, "--only-failed")
    assert (report.exit_code, report.error.details["step"]) == (4, "p[0]/ok")
    assert pictures == ["b"]


def test_items_of_an_edited_batch_keep_what_was_done_for_them(bench, pictures, resumed, mended):
    run = bench.run_failing({"d": NO}, pages(*"abcd", error_handling="fail_fast")).run_id
    words = mended(pages(*"cxbd", error_handling="fail_fast"))
    report = resumed(run, *words)
    assert [it["step"] for it in report.error.details["unmatched"]] == ["p[0]/go", "p[1]/go"]
    report = resumed(run, *words, "--forget", "p/go", "--forget", "p/shot")
    assert shown(report) == [f"picture of {it}" for it in "cxbd"]
    assert pictures == list("abcxd")


def test_equal_items_keep_their_places_if_one_of_them_is_repeated(bench, sent, resumed):
    done = []

    @bench.acts("t-count", ["of"], ["picture"])
    def count(shared, params):
        done.append(params["of"])
        shared["picture"] = len(done)

    batch = {"items": ["a", "a", "b"]}
    workflow = flow(step("each", "t-count", {"of": "${item}"}, batch=batch), step("bad", "t-send"))
    workflow["nodes"][1] |= {"params": {"value": "${each.results[9]}"}}
    run = bench.run(workflow).run_id
    workflow["nodes"].pop()
    bench.host.library.save("whole", workflow)
    assert shown(resumed(run, "--rerun", "each[0]", "--workflow", "whole")) == [4, 2, 3]


def test_a_node_reached_only_now_takes_no_result_of_a_later_one(bench, pictures, resumed):
    workflow = in_line("a", "b", "c")
    ids = [it["id"] for it in workflow["nodes"]]
    workflow["edges"] = [*map(edge, ids, ids[1:]), edge("send-a", "send-b", "error")]
    bench.failing = {"a": [NO], "c": [NO]}
    run = bench.run(workflow).run_id
    report = resumed(run, "--rerun", "send-a")
    assert report.data["outputs"] == {it: f"picture of {it}" for it in "abc"}


def test_a_node_that_was_added_takes_no_result_of_a_later_one(bench, pictures, resumed, mended):
    broken = in_line("b")
    broken["nodes"].append(step("bad", "t-send", {"value": "bad"}))
    run = bench.run_failing({"bad": NO}, broken).run_id
    report = resumed(run, *mended(in_line("a", "b")))
    assert report.data["outputs"] == {"a": "picture of a", "b": "picture of b"}
    assert pictures == ["b", "a"]


def test_a_node_that_may_be_one_of_two_that_are_gone_is_not_begun(bench, pictures, resumed, mended):
    broken = in_line("a", "b")
    broken["nodes"].append(step("bad", "t-send", {"value": "bad"}))
    run = bench.run_failing({"bad": NO}, broken).run_id
    edited = in_line("b")
    edited["nodes"][1]["id"] = "renamed"
    edited["outputs"] = {"b": "${renamed.picture}"}
    report = resumed(run, *mended(edited), "--forget", "send-a")
    assert [it["step"] for it in report.error.details["unmatched"]] == ["shot-a", "shot-b"]
    report = resumed(run, *mended(edited), "--forget", "send-a", "--forget", "shot-a")
    assert report.data["outputs"] == {"b": "picture of b"}
    assert pictures == ["a", "b"]
