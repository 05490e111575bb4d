import json
import re
from pathlib import Path

import pytest
from workflow_parts import step

from pflow_mcp_plugin.host.workflow.expressions.functions import signatures

TEXT = (Path(__file__).parents[3] / "docs" / "workflows.md").read_text(encoding="utf-8")
WORKFLOWS = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)]


def _with(node_id):
    return next(it for it in WORKFLOWS if any(node["id"] == node_id for node in it["nodes"]))


@pytest.mark.parametrize(
    ("files", "limit", "said"), [([], 1, "no files"), (["a"], 1, "a\n"), (["a", "b"], 1, "more than 1 files")]
)
def test_the_documented_branch_says_what_is_there(bench, tmp_path, files, limit, said):
    folder = tmp_path / "files"
    folder.mkdir()
    for name in files:
        (folder / name).touch()
    outcome = bench.run(_with("decide"), folder=str(folder), limit=limit)
    assert outcome.outputs == {"message": said}


@pytest.mark.parametrize(
    ("node_id", "inputs", "outputs"),
    [
        ("compare", {"number": 3}, {"said": "3 is small"}),
        ("compare", {"number": 30}, {"said": "30 is large"}),
        ("print", {}, {"said": "no notes"}),
        ("print", {"notes": [1]}, {"said": [1]}),
        ("table", {}, {"csv": "name,hours\nann,8\nbob,4\n", "total": 12}),
    ],
)
def test_the_documented_branches_conditions_and_transforms_give_what_they_should(
    bench, node_id, inputs, outputs
):
    assert bench.run(_with(node_id), **inputs).outputs == outputs


@pytest.mark.slow
def test_the_documented_expressions_tell_items_of_a_batch_apart(bench, tmp_path):
    there, gone = tmp_path / "there", tmp_path / "gone"
    there.write_text("text")
    patterns = {"good": r"read\.items\[\?!error\]\.\{.*?\}", "bad": r"read\.items\[\?error\]\.item"}
    outputs = {name: re.search(rf"`({pattern})`", TEXT)[1] for name, pattern in patterns.items()}
    batch = {key: value for key, value in _with("read").items() if key != "outputs"}
    nodes = [*batch["nodes"], step("tell", "transform", {"outputs": outputs})]
    result = bench.run({**batch, "nodes": nodes}, files=[str(there), str(gone)]).outputs
    assert result["good"] == [{"file": str(there), "text": "text"}]
    assert result["bad"] == [str(gone)]


def test_every_function_is_documented():
    table = TEXT.partition("| functions |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`(\w+)[`(]", table)) == signatures().keys()
