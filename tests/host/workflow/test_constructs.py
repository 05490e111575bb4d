from __future__ import annotations

import re
from pathlib import Path

import pytest

import pflow_mcp_plugin.host
from pflow_mcp_plugin.contract import Entry, Field, Interface
from pflow_mcp_plugin.host.workflow.constructs import CONSTRUCT_KEYS, Construct, Constructs
from pflow_mcp_plugin.host.workflow.findings import Findings

ENTRY = Entry(
    node="t",
    class_name="T",
    module="t",
    retryable=False,
    interface=Interface(outputs=(Field(key="n", type="int"),)),
)
EVERY = {
    "when": "length(all) > 0",
    "batch": {"items": "${all}", "as": "one", "max_retries": 2},
    "cache": {"ttl": 60},
}


@pytest.fixture
def constructs():
    findings = Findings()
    read = Constructs.read(EVERY, "$.nodes[0]", findings)
    assert findings.problems == []
    return read


@pytest.mark.parametrize(
    ("key", "kind"), [("when", "When"), ("batch", "Batch"), ("retry", "Retry"), ("cache", "Caching")]
)
def test_at_most_six_modules_know_a_construct_by_its_name(key, kind):
    assert key in CONSTRUCT_KEYS
    folder = Path(pflow_mcp_plugin.host.__file__).parent
    named = re.compile(rf"(constructs|edge)\.{key}\b|\b{kind}\(|import .*\b{kind}\b|: {kind}\b")
    modules = {path.stem for path in folder.rglob("*.py") if named.search(path.read_text(encoding="utf-8"))}
    assert "constructs" in modules
    assert len(modules) <= 6


def test_a_construct_that_says_nothing_changes_nothing():
    silent = Construct()
    assert silent.gathered(ENTRY) is ENTRY
    assert [*silent.read_of_one(("n",))] == [("n",)]
    assert [*silent.conditions(), *silent.templates(), *silent.names(), *silent.known_runs(len)] == []
    said = [silent.may_skip, silent.repeats, silent.repeated_outputs, silent.words(len)]
    assert not any(said)


def test_constructs_say_together_what_they_read_and_add(constructs):
    assert [place.text for place in constructs.conditions()] == ["length(all) > 0"]
    assert [(place.path, place.value) for place in constructs.templates()] == [
        ("$.nodes[0].batch.items", "${all}")
    ]
    assert constructs.names == {"one": "$.nodes[0].batch.as"}
    listed = Field(key="all", type="list", schema={"items": {"type": "integer"}})
    assert constructs.inside(lambda _: listed) == {
        "one": Field(key="one", type="integer", schema={"type": "integer"})
    }
    assert constructs.may_skip
    assert constructs.repeats


def test_constructs_say_together_what_later_nodes_see(constructs):
    seen = constructs.gathered(ENTRY).interface
    assert "results" in {field.key for field in seen.outputs}
    assert not seen.open_outputs
    assert [*constructs.read_of_one(("results", 0, "n"))] == [("n",)]
    assert [*constructs.read_of_one(("count",))] == []


def test_constructs_say_together_what_does_not_fit_their_node(constructs):
    findings = Findings()
    constructs.check("Node t", ENTRY, findings)
    assert {problem.path for problem in findings.problems} == {
        "$.nodes[0].batch.max_retries",
        "$.nodes[0].cache",
    }


def test_constructs_say_together_how_they_are_drawn(constructs):
    assert constructs.words() == ["if length(all) > 0", "for each item"]
    assert constructs.words(lambda _: [1, 2]) == ["if length(all) > 0", "for each of 2 items"]
    assert Constructs().words() == []
