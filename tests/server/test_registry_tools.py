"""The tools for nodes: discover, describe, run, search, list."""

import json
import re
from pathlib import Path

import pytest

from pflow_mcp_plugin.exchange import CallResult
from pflow_mcp_plugin.server import registry_tools
from pflow_mcp_plugin.server.registry_tools import DESCRIBE
from pflow_mcp_plugin.types import Tool


def test_a_single_node_runs_and_every_path_of_its_output_is_described(either):
    answer = either.call("registry_run", node_type="echo", parameters={"message": {"items": [{"name": "a"}]}})
    data = answer["data"]
    paths = {each["path"]: each for each in data["structure"]}
    assert data["node"] == "echo"
    assert data["outputs"] == {"message": {"items": [{"name": "a"}]}}
    assert paths["message"]["type"] == "dict"
    assert paths["message.items[0].name"] == {"path": "message.items[0].name", "type": "str", "sample": "a"}
    assert data["run_id"] in answer["trace_path"]


def test_of_many_paths_the_outermost_are_described_and_the_others_counted(served):
    message = {"many": {f"k{n}": n for n in range(1_000)}, "last": 1}
    data = served.data("registry_run", node_type="echo", parameters={"message": message})
    paths = [each["path"] for each in data["structure"]]
    assert paths[:4] == ["message", "message.many", "message.last", "message.many.k0"]
    assert (len(paths), data["more_paths"]) == (200, 803)


def test_wrong_parameters_are_named_before_the_node_runs(served):
    error = served.error("registry_run", node_type="shell", parameters={"comand": "true"})
    assert error["type"] in ("validation", "usage")
    assert "comand" in str(error)


def test_a_parameter_that_looks_like_a_template_is_text(served):
    data = served.data("registry_run", node_type="echo", parameters={"message": "${HOME} ${x.y}"})
    assert data["outputs"]["message"] == "${HOME} ${x.y}"


def test_several_nodes_are_described_and_unknown_ones_named(either):
    data = either.data("registry_describe", nodes=["echo", "read-file", "echo"])
    assert [entry["node"] for entry in data["nodes"]] == ["echo", "read-file"]
    assert data["nodes"][0]["interface"]["params"]
    error = either.error("registry_describe", nodes=["echo", "shel", "read-file", "ecko"])
    assert error["type"] == "not_found"
    assert [entry["node"] for entry in error["details"]["entries"]] == ["echo", "read-file"]
    hints = [problem["suggestion"] for problem in error["details"]["problems"]]
    assert ["shell" in hints[0], "echo" in hints[1]] == [True, True]


@pytest.mark.parametrize("nodes", [[], ["a"] * 1 + [f"n{number}" for number in range(200)]])
def test_none_or_too_many_nodes_are_not_described(served, nodes):
    assert served.error("registry_describe", nodes=nodes)["type"] == "validation"
    assert DESCRIBE.input_schema["properties"]["nodes"]["maxItems"] == 100
    assert "at most 100" in DESCRIBE.description


def test_nodes_are_found_by_words_and_by_a_task(either):
    found = either.data("registry_search", pattern="file")["nodes"]
    assert {"read-file", "write-file"} <= {row["node"] for row in found}
    assert found[0]["description"]
    match = either.data("registry_discover", task="read a text file")["matches"][0]
    assert match["node"] == "read-file"
    assert match["params"]["file_path"] == "str, required"
    assert "interface" not in match
    whole = either.data("registry_discover", task="read a text file", full=True)["matches"][0]
    [entry] = either.data("registry_describe", nodes=["read-file"])["nodes"]
    assert whole == {**entry, "confidence": match["confidence"], "reason": match["reason"]}
    assert 0 < match["confidence"] <= 1
    assert match["reason"]


def test_a_search_says_when_it_shows_fewer_than_it_found(served, monkeypatch):
    whole = served.data("registry_search", pattern="file")
    assert (len(whole["nodes"]), whole["note"]) == (whole["total"], "")
    monkeypatch.setattr(registry_tools, "SEARCH_LIMIT", 1)
    found = served.data("registry_search", pattern="file")
    assert (found["nodes"], found["total"]) == (whole["nodes"][:1], whole["total"])
    assert found["note"] == f"{whole['total'] - 1} more found: add words"


def test_all_nodes_are_listed(served):
    data = served.data("registry_list")
    assert {"echo", "shell", "llm", "read-file", "write-file"} <= {row["node"] for row in data["nodes"]}
    assert data["total"] == len(data["nodes"])
    assert served.data("registry_search", pattern="zzzzqqq")["nodes"] == []


def test_arguments_without_end_are_refused_and_large_workflows_are_not(served):
    endless = "x y" * 10_000
    refused = [
        served.error("registry_search", pattern=endless),
        served.error("registry_run", node_type=endless),
        served.error("workflow_discover", query=endless),
        served.error("registry_describe", nodes=[endless]),
        served.error("registry_describe", nodes=["echo"] * 2_000),
    ]
    assert {error["type"] for error in refused} == {"validation"}
    assert all("are accepted" in error["message"] for error in refused)
    text = json.dumps({"nodes": [{"id": "a", "type": "echo", "params": {"message": endless}}]})
    assert served.data("workflow_save", workflow_file=text, name="large", description="d")["name"] == "large"


LARGE = "line\n" * 100_000
"""A text above `inline_limit_kb`."""


@pytest.fixture
def give(served):
    """Let the tool of a fake server answer this."""
    server = served.pflow.serve("big", [Tool(name="give", input_schema={"type": "object"})])
    return lambda answer: server.answers.give("give", answer)


def test_a_large_result_of_a_tool_is_shown_by_its_beginning_and_the_file_that_holds_it(served, give):
    answer = {"rows": [{"n": n} for n in range(25_000)]}
    give(answer)
    answered = served.call("registry_run", node_type="mcp-big-give")
    outputs = answered["data"]["outputs"]
    assert len(json.dumps(answered)) < 200_000
    files = (re.search(r"whole in (\S+\.\w+)", json.dumps(outputs[key]))[1] for key in ("result", "rows"))
    (file,) = map(Path, set(files))
    assert {"rows": json.loads(file.read_text())} == answer
    assert file.parent.name == answered["data"]["run_id"]
    run = {"nodes": [{"id": "a", "type": "mcp-big-give"}], "outputs": {"all": "${a.result}"}}
    shown = served.data("workflow_execute", workflow=run)["outputs"]["all"]
    assert "whole in" in json.dumps(shown)


def test_a_large_text_of_any_node_is_shown_by_its_beginning(served, root):
    (root / "large.txt").write_text(LARGE)
    parameters = {"file_path": str(root / "large.txt")}
    shown = served.data("registry_run", node_type="read-file", parameters=parameters)["outputs"]["content"]
    beginning, file = re.fullmatch(
        r"((?:line\n)+l?i?n?e?)\.\.\. \(500,000 .*\), whole in (\S+)", shown
    ).groups()
    assert (len(beginning), Path(file).read_text()) == (16_000, LARGE)


def test_what_a_failed_tool_answered_is_in_the_details_shortened(served, give):
    structured = {"code": 7, "rows": list(range(200_000))}
    give(CallResult(content=(), structured=structured, has_structured=True, is_error=True))
    details = served.error("registry_run", node_type="mcp-big-give")["details"]
    shown = details["structured_content"]
    assert shown["code"] == 7
    file = re.search(r"whole in (\S+): [\d,]+ more items", shown["rows"][-1])[1]
    assert json.loads(Path(file).read_text()) == structured["rows"]
