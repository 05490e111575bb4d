import pickle

import pytest
from shelf_library import Shelf

from pflow_mcp_plugin.contract import (
    Entry,
    Field,
    Host,
    Interface,
    NodeOutcome,
    Outcome,
    PflowError,
    Problem,
    Registry,
    RunControl,
    Runner,
    RunOptions,
    RunOrigin,
    Settings,
)


class Few(Registry):
    known = (
        Entry(node="shout-loud", class_name="N", module="m", description="Say a word loudly"),
        Entry(node="shout-low", class_name="N", module="m", description="Whisper"),
    )

    def get(self, node_type):
        for entry in self.known:
            if entry.node == node_type:
                return entry
        raise PflowError(f"no {node_type}", kind="config" if node_type == "broken" else "not_found")

    def entries(self, pattern=""):
        return (entry for entry in self.known if pattern in entry.node)


class Fixed(Settings):
    def get(self, key):
        return {"KEY": "value"}.get(key)


def test_a_registry_finds_and_searches_by_what_it_must_have():
    assert Few().find("shout-loud") is Few.known[0]
    assert Few().find("shout-none") is None
    with pytest.raises(PflowError, match="broken"):
        Few().find("broken")
    assert [(entry.node, score) for entry, score in Few().search("shout a Word")] == [
        ("shout-loud", 1.0),
        ("shout-low", 1 / 3),
    ]
    assert Few().count("shout a Word") == 2
    assert [match.item.node for match in Few().discover("whisper", 1).matches] == ["shout-low"]
    assert not Few().search("")


def test_a_registry_describes_several_nodes_and_names_every_unknown_one():
    loud, low = Few.known
    assert Few().describe(["shout-low", "shout-loud", "shout-low"]) == [low, loud]
    with pytest.raises(PflowError, match="no shout-none") as caught:
        Few().describe(["shout-none"])
    assert not caught.value.problems
    with pytest.raises(PflowError, match="2 node types") as caught:
        Few().describe(["one", "shout-low", "two"])
    assert caught.value.kind == "not_found"
    assert [problem.message for problem in caught.value.problems] == ["no one", "no two"]
    assert caught.value.details["entries"] == [low.to_dict()]
    with pytest.raises(PflowError, match="no broken") as caught:
        Few().describe(["shout-none", "broken"])
    assert caught.value.kind == "config"


def test_a_library_filters_and_discovers_by_what_it_must_have():
    shelf = Shelf()
    for name, description in (("shout", "Say a word loudly"), ("whisper", "Say it LOW")):
        shelf.save(name, {}, description)
    before = shelf.fingerprint()
    shelf.shelf["torn"] = {}
    assert shelf.fingerprint() != before
    assert [(saved.name, saved.problem) for saved in shelf.saved()] == [
        ("shout", ""),
        ("torn", "a page is missing"),
        ("whisper", ""),
    ]
    assert [saved.name for saved in shelf.saved("low")] == ["whisper"]
    found = [(match.item.name, match.confidence) for match in shelf.discover("say loudly").matches]
    assert found == [("shout", 1.0), ("whisper", 0.5)]
    assert shelf.discover("say loudly").matches[0].reason == "contains say, loudly"
    assert len(shelf.discover("say", 1).matches) == 1


class Careful(Runner):
    def validate(self, workflow):
        kinds = workflow.get("mistakes", ())
        return [Problem(message=f"wrong {number}", kind=kind) for number, kind in enumerate(kinds)]

    def run(self, workflow, inputs, **how):
        raise NotImplementedError

    def normalise(self, workflow):
        return {**workflow, "edges": []}


class Keeper(Host):
    api = (1, 0)
    hook = registry = library = runner = None

    def report(self, problem):
        """Ignore it."""


def test_a_host_saves_what_is_valid_in_normal_form():
    keeper = Keeper()
    with pytest.raises(PflowError, match="does not save workflows"):
        keeper.save_workflow({}, "a")
    keeper.library = Shelf()
    keeper.save_workflow({"mistakes": ["validation"]}, "unchecked")
    keeper.runner = Careful()
    saved, problems = keeper.save_workflow({"mistakes": ["not_found"]}, "a", "An example")
    assert (saved.description, [problem.message for problem in problems]) == ("An example", ["wrong 0"])
    assert keeper.library.get("a")["edges"] == []
    with pytest.raises(PflowError, match="is not saved: wrong 0"):
        keeper.save_workflow({"mistakes": ["validation"]}, "b")
    with pytest.raises(PflowError, match="it has 2 errors") as caught:
        keeper.save_workflow({"mistakes": ["not_found", "validation"]}, "b")
    assert (caught.value.kind, len(caught.value.problems)) == ("validation", 2)
    with pytest.raises(PflowError, match="it has 2 errors"):
        keeper.save_workflow({"mistakes": ["validation", "usage"]}, "b")
    assert keeper.library.names() == ["a", "unchecked"]


@pytest.mark.parametrize(
    ("text", "message"), [("{", "not valid JSON: "), ("[" * 100_000, "not valid JSON: "), ("[]", "must be")]
)
def test_a_runner_reads_json_objects_and_says_what_else_is_wrong(text, message):
    assert Runner.read(None, '{"nodes": []}', "wf") == {"nodes": []}
    with pytest.raises(PflowError, match=message) as caught:
        Runner.read(None, text, "wf")
    assert caught.value.kind == "validation"


@pytest.mark.parametrize("missing", ["get", "entries"])
def test_what_a_registry_must_have_is_required(missing):
    given = {name: getattr(Few, name) for name in ("get", "entries") if name != missing}
    with pytest.raises(TypeError, match=missing):
        type("Part", (Registry,), given)()


class Plain(Runner):
    """A runner that checks nothing, and notes what it runs."""

    def __init__(self):
        self.ran = []

    def validate(self, workflow):
        return ()

    def run(self, workflow, inputs, **how):
        self.ran.append((workflow, inputs, how))
        return Outcome(success=True, outputs={}, run_id="r1")


def test_a_runner_runs_a_single_node_as_a_workflow_in_which_no_text_is_a_template():
    runner, origin, control = Plain(), RunOrigin(owner="ann"), RunControl()
    params = {"a": ["${x}", {"b": "$y ${z}"}], "n": 1}
    outcome = runner.run_node("echo", params, origin=origin, control=control)
    assert outcome == NodeOutcome(node="echo", outcome=Outcome(success=True, outputs={}, run_id="r1"))
    node = {"id": "node", "type": "echo", "params": {"a": ["$${x}", {"b": "$y $${z}"}], "n": 1}}
    assert runner.ran == [({"nodes": [node]}, {}, {"name": "echo", "origin": origin, "control": control})]


def test_a_runner_knows_of_a_workflow_what_it_declares(tmp_path):
    declared = {
        "text": {"type": "str", "description": "What to say"},
        "often": {"required": False, "type": None},
        "count": {"type": "int", "default": None},
    }
    params = (
        Field(key="text", type="str", required=True, description="What to say"),
        Field(key="often"),
        Field(key="count", type="int", schema={"default": None}),
    )
    runner, workflow = Plain(), {"inputs": declared, "outputs": {"said": {}}, "nodes": []}
    expected = Interface(params=params, outputs=(Field(key="said"),), inputs=tuple(declared))
    assert runner.interface(workflow) == expected
    assert runner.interface({"inputs": [], "outputs": None}) == Interface(open_outputs=True)
    assert (runner.normalise(workflow), runner.schema()) == (workflow, {"type": "object"})
    assert runner.with_options(RunOptions()) is runner
    with pytest.raises(PflowError, match="no options for runs") as caught:
        runner.with_options(RunOptions(locked=True))
    assert caught.value.kind == "usage"
    file = tmp_path / "a.json"
    with pytest.raises(PflowError, match="cannot be read") as caught:
        runner.read_file(file)
    assert caught.value.kind == "not_found"
    file.write_text('{"nodes": []}')
    assert runner.read_file(file) == {"nodes": []}


def test_what_a_host_lacks_is_refused_or_empty():
    keeper = Keeper()
    parts = (Host.runner, Host.settings, Host.library, Host.traces)
    assert [part.fget(keeper) for part in parts] == [None] * 4
    assert keeper.complete_chain([], "ec") == ()
    assert (Fixed().names(), Fixed().unset("KEY")) == ({}, False)
    for refused in (
        lambda: Fixed().set("KEY", "x"),
        lambda: keeper.run_chain(["echo"], "pflow"),
        lambda: Few().withhold_code(Problem(message="no")),
    ):
        with pytest.raises(PflowError) as caught:
            refused()
        assert caught.value.kind == "usage"


def test_a_pickled_outcome_leaves_out_what_needs_its_run():
    outcome = Outcome(success=True, outputs={"sum": 3}, run_id="r1", shown=lambda _value: None)
    copied = pickle.loads(pickle.dumps(outcome))
    assert (copied, copied.shown(3)) == (outcome, 3)
