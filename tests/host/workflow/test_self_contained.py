import json

import pytest
from workflow_parts import flow, step

from pflow_mcp_plugin.contract import PflowError


def calling(workflow, **params):
    return flow(step("call", "workflow", {"workflow": workflow, **params}))


@pytest.fixture
def files(tmp_path):
    def write(**workflows):
        folder = tmp_path / "flows"
        folder.mkdir(exist_ok=True)
        for name, workflow in workflows.items():
            (folder / f"{name}.json").write_text(json.dumps(workflow), encoding="utf-8")
        return folder

    return write


SAY = flow(step("say", "echo", {"message": "${word}!"}), inputs={"word": {"type": "str"}})


def test_files_are_written_in_it_however_deep_and_found_beside_the_file_that_names_them(bench, files):
    folder = files(say=SAY)
    (folder / "deep").mkdir()
    (folder / "deep" / "middle.json").write_text(json.dumps(calling("../say.json", word="deep")))
    inner = calling("deep/middle.json")
    files(outer=calling(inner))
    read = bench.host.runner.read_file(folder / "outer.json")
    (folder / "say.json").unlink()
    assert bench.run(read).outputs == {"message": "deep!"}
    inside = read["nodes"][0]["params"]["workflow"]["nodes"][0]["params"]["workflow"]
    assert inside["nodes"][0]["params"]["workflow"]["nodes"][0]["params"] == {"message": "${word}!"}


def test_a_workflow_that_names_no_file_is_read_as_it_is(bench, files):
    workflow = calling("saved-one")
    assert bench.host.runner.read_file(files(outer=workflow) / "outer.json") == workflow


@pytest.mark.parametrize(
    ("called", "message"),
    [("./gone.json", "No such file"), ("./outer.json", "would run itself"), ("./bad.json", "not valid JSON")],
)
def test_a_file_that_cannot_be_run_is_refused(bench, files, called, message):
    folder = files(outer=calling(called))
    (folder / "bad.json").write_text("{")
    with pytest.raises(PflowError, match=message):
        bench.host.runner.read_file(folder / "outer.json")
