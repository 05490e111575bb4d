"""What a client names may not lead out of the folder that is served, nor take for ever."""

from __future__ import annotations

import json
import time

import pytest

SECRET = "top-secret-content-of-another-file"
WORKFLOW = {"nodes": [{"id": "a", "type": "echo", "params": {"message": "hi"}}]}


def test_a_link_within_the_folder_may_be_followed(served, root):
    (root / "real.json").write_text(json.dumps(WORKFLOW), encoding="utf-8")
    (root / "link.json").symlink_to("real.json")
    assert served.data("workflow_execute", workflow="link.json")["outputs"] == {"message": "hi"}


def test_where_no_folder_is_served_a_path_is_refused_with_what_to_pass_instead(served, root):
    (root / "hello.json").write_text(json.dumps(WORKFLOW), encoding="utf-8")
    for given in (str(root / "hello.json"), "hello.json"):
        answer = served.call("workflow_execute", {"root": None}, workflow=given)
        assert answer["error"]["type"] == "validation"
        assert "JSON" in str(answer["error"]["suggestions"])
    saved = served.call(
        "workflow_save", {"root": None}, workflow_file=json.dumps(WORKFLOW), name="x", description="y"
    )
    assert saved["success"]


@pytest.mark.parametrize(
    "trace",
    [
        "../../config/settings.json",
        "{home}/state/traces/../../config/settings.json",
        "{home}/state/traces/link.json",
        "link",
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


@pytest.mark.parametrize(
    "workflow",
    [
        {"nodes": [{"id": "a", "type": "echo", "params": {"message": [0] * 400_000}}]},
        '{"nodes": [], "description": "' + "x" * (9 << 20) + '"}',
        '{"nodes": [], "nodes": []}',
        "[1, 2]",
        {"nodes": 5},
        '{"nodes": [{"id": "a", "type": "echo", "params": {"message": NaN}}]}',
    ],
    ids=["many values", "long text", "twice", "list", "number", "nan"],
)
def test_a_workflow_that_is_too_much_is_refused_in_bounded_time(served, workflow):
    """Further ones, and what leads out of the folder or is no file, are in `test_served_attacks.py`."""
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
