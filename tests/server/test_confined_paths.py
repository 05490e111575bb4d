"""What a client names may not lead out of the folder that is served, nor take for ever."""

from __future__ import annotations

import json
import time

import pytest
import special_paths

SECRET = "top-secret-content-of-another-file"
WORKFLOW = {"nodes": [{"id": "a", "type": "echo", "params": {"message": "hi"}}]}


@pytest.fixture
def outside(tmp_path):
    """A workflow outside the served folder."""
    path = tmp_path / "outside.json"
    path.write_text(json.dumps({**WORKFLOW, "description": SECRET}), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["\0", "a\nb.json", "x/" * 3_000 + "y.json", "/", " "])
@pytest.mark.parametrize("tool", ["workflow_execute", "workflow_validate", "workflow_save"])
def test_what_cannot_be_the_path_of_a_workflow_is_refused(served, tool, name):
    """What leads out of the folder is played in `test_served_attacks.py`."""
    if tool == "workflow_save":
        error = served.error(tool, workflow_file=name, name="a", description="b")
    else:
        error = served.error(tool, workflow=name)
    assert error["type"] in ("validation", "not_found")


@pytest.mark.parametrize("kind", special_paths.KINDS)
def test_only_regular_files_are_read(served, root, kind):
    with special_paths.special_path(kind, root / "odd.json"):
        assert served.error("workflow_execute", workflow="odd.json")["type"] == "validation"


def test_a_link_within_the_folder_may_be_followed(served, root):
    (root / "real.json").write_text(json.dumps(WORKFLOW), encoding="utf-8")
    (root / "link.json").symlink_to("real.json")
    assert served.data("workflow_execute", workflow="link.json")["outputs"] == {"message": "hi"}


def test_where_no_folder_is_served_a_path_is_refused_with_what_to_pass_instead(served, outside):
    for given in (str(outside), "hello.json", "../x"):
        answer = served.call("workflow_execute", {"root": None}, workflow=given)
        assert answer["error"]["type"] == "validation"
        assert "JSON" in str(answer["error"]["suggestions"])
    saved = served.call(
        "workflow_save", {"root": None}, workflow_file=json.dumps(WORKFLOW), name="x", description="y"
    )
    assert saved["success"]


@pytest.mark.parametrize(
    "name", ["../x", "a/b", "..", "CON ", "a\0b", "A", "x" * 300, ".hidden", "", "con.json"]
)
def test_a_workflow_is_saved_under_a_plain_name_only(served, name):
    error = served.error("workflow_save", workflow_file=json.dumps(WORKFLOW), name=name, description="x")
    assert error["type"] in ("usage", "validation")
    library = served.pflow.home / "data" / "workflows"
    assert not [path for path in library.rglob("*") if path.suffix == ".json"]


@pytest.mark.parametrize(
    "trace",
    [
        "../../config/settings.json",
        "{home}/config/settings.json",
        "{home}/state/traces/../../config/settings.json",
        "{home}/state/traces/link.json",
        "link",
        "link.json",
        "*",
        "{home}/state/traces",
    ],
)
def test_only_traces_are_read_as_traces(served, trace):
    served.data("settings_set", key="SERVICE_TOKEN", value=SECRET)
    run = served.call("workflow_execute", workflow=WORKFLOW)
    home = served.pflow.home
    (home / "state" / "traces" / "link.json").symlink_to(home / "config" / "settings.json")
    answer = served.call("trace_read", trace_file=trace.format(home=home))
    assert run["success"]
    assert not answer["success"], answer
    assert SECRET not in json.dumps(answer)


def _bombs():
    """Yield workflows that are too much; further ones are in `test_served_attacks.py`."""
    node = {"id": "a", "type": "echo", "params": {"message": "x"}}
    yield (
        "deeper text",
        '{"nodes": [{"id": "a", "type": "echo", "params": {"message": %s}}]}' % ("[" * 500 + "]" * 500),
    )
    yield "many values", {"nodes": [{**node, "params": {"message": [0] * 400_000}}]}
    yield "long text", '{"nodes": [], "description": "' + "x" * (9 << 20) + '"}'
    yield "twice", '{"nodes": [], "nodes": []}'
    yield "list", "[1, 2]"
    yield "number", {"nodes": 5}
    yield "nothing", {}
    yield "nan", '{"nodes": [{"id": "a", "type": "echo", "params": {"message": NaN}}]}'


@pytest.mark.parametrize(("workflow"), [bomb for _, bomb in _bombs()], ids=[name for name, _ in _bombs()])
def test_a_workflow_that_is_too_much_is_refused_in_bounded_time(served, workflow):
    began = time.monotonic()
    error = served.error("workflow_execute", workflow=workflow)
    assert error["type"] == "validation"
    assert len(json.dumps(error)) < 100_000
    assert time.monotonic() - began < 20


def test_a_large_file_is_refused(served, root):
    with (root / "large.json").open("wb") as file:
        file.truncate(9 << 20)
    error = served.error("workflow_execute", workflow="large.json")
    assert "larger than" in error["message"]


def test_reserved_parameters_are_refused(served):
    workflow = {"nodes": [{"id": "a", "type": "echo", "params": {"message": "x", "__mcp_server__": "x"}}]}
    assert served.error("workflow_execute", workflow=workflow)["type"] == "validation"
    assert served.error("registry_run", node_type="echo", parameters={"message": "x", "__run__": "y"})
