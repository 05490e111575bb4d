"""The tools for workflows and traces: no file leads them out of the folder, or to runs of others."""

import json
import time

import anyio
import pytest
from workflow_parts import flow, step

from pflow_mcp_plugin.server.offer import ALL_TOOLS, Offer

HELLO = {
    "description": "Greets somebody by name",
    "inputs": {"name": {"type": "string", "required": True, "description": "Who"}},
    "nodes": [{"id": "greet", "type": "echo", "params": {"message": "Hello ${name}"}}],
    "outputs": {"greeting": {"source": "${greet.message}"}},
}
FAILING = flow(
    step("first", "echo", {"message": "done"}),
    step("second", "shell", {"command": "echo broken >&2; exit 3"}),
)


def test_a_workflow_runs_and_its_outputs_come_back_with_run_id_and_trace(either, root):
    answer = either.call("workflow_execute", workflow=HELLO, parameters={"name": "Ada"})
    assert answer["data"]["outputs"] == {"greeting": "Hello Ada"}
    assert answer["data"]["run_id"] in answer["trace_path"]
    assert "checkpoint" not in answer


def test_a_workflow_is_given_as_an_object_json_text_path_or_name(served, root):
    (root / "hello.json").write_text(json.dumps(HELLO), encoding="utf-8")
    served.data("workflow_save", workflow_file="hello.json", name="hello", description="Greets")
    for given in (HELLO, json.dumps(HELLO), "hello.json", str(root / "hello.json"), "hello"):
        data = served.data("workflow_execute", workflow=given, parameters={"name": "Ada"})
        assert data["outputs"] == {"greeting": "Hello Ada"}


YAML = """
nodes:
  - id: greet
    type: echo
    params: {message: Hello}
outputs:
  greeting: ${greet.message}
"""


def test_a_workflow_is_given_as_a_yaml_file_or_as_yaml_text(either, root):
    (root / "hello.yaml").write_text(YAML, encoding="utf-8")
    node = "{id: greet, type: echo, params: {message: Hello}}"
    line = f"{{nodes: [{node}], outputs: {{greeting: '${{greet.message}}'}}}}"
    for given in ("hello.yaml", YAML, line):
        assert either.data("workflow_execute", workflow=given)["outputs"] == {"greeting": "Hello"}
        assert either.data("workflow_validate", workflow=given)["valid"] is True
        saved = either.data("workflow_save", workflow_file=given, name="hello", description="Greets")
        assert saved["name"] == "hello"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"workflow": "nodes:\n  - [\n"}, ["not valid YAML", "at line 3"]),
        ({"workflow": '{"nodes": ['}, ["line 1"]),
        ({"workflow": HELLO}, ["name"]),
    ],
    ids=["yaml", "json", "a missing input"],
)
def test_what_is_wrong_with_a_workflow_is_named_with_its_place(served, given, words):
    error = served.error("workflow_execute", **given)
    assert error["type"] == "validation"
    assert [word for word in words if word not in error["message"]] == []


@pytest.mark.parametrize(
    ("make", "most", "words"),
    [
        (lambda values: {"nodes": [], "x": [0] * (values - 3)}, 200_000, "200,000 values"),
        (lambda depth: json.loads('{"x":' + "[" * (depth - 1) + "]" * (depth - 1) + "}"), 100, "100 levels"),
        (lambda nodes: {"nodes": [0] * nodes}, 10_000, "10,000 nodes"),
        (lambda length: "[" * length, 8 << 20, "8,388,608 characters"),
    ],
)
def test_a_workflow_that_is_given_may_be_as_large_as_the_limit(served, make, most, words):
    too_large = f"it has more than {words}"
    assert too_large not in str(served.call("workflow_validate", workflow=make(most)))
    assert too_large in served.error("workflow_validate", workflow=make(most + 1))["message"]


ASKS_A_SETTING = {
    "inputs": {"key": {"type": "str", "setting": "API_KEY"}},
    "nodes": [{"id": "a", "type": "echo", "params": {"message": "${key}"}}],
}
MISSPELT = json.dumps({"nodes": [{"id": "a", "type": "ecko"}]})
RUNS_A_FILE = {"nodes": [{"id": "a", "type": "workflow", "params": {"workflow": "b.json"}}]}
UNKNOWN = {"nodes": [{"id": "a", "type": "ecko"}, {"id": "b", "type": "zzzz"}]}


@pytest.mark.parametrize(
    ("tool", "given", "steps"),
    [
        ("workflow_execute", {"workflow": UNKNOWN}, ["Did you mean echo?", "List them: registry_list"]),
        ("workflow_execute", {"resume": "20200101-000000-00000000"}, ["If it failed with nothing done"]),
        ("workflow_execute", {"workflow": ""}, ["See workflow_list"]),
        ("workflow_execute", {"workflow": "./absent.json"}, ["a name in workflow_list"]),
        (
            "workflow_execute",
            {"workflow": ASKS_A_SETTING},
            ["Pass key=... in parameters: no setting is read"],
        ),
        (
            "workflow_save",
            {"workflow_file": MISSPELT, "name": "a", "description": ""},
            ["Did you mean echo?"],
        ),
        ("workflow_validate", {"workflow": RUNS_A_FILE}, ["Save it too (workflow_save)"]),
        ("workflow_execute", {"workflow": FAILING}, ["call workflow_execute with resume 2"]),
        ("workflow_validate", {"workflow": UNKNOWN}, ["Did you mean echo?", "List them: registry_list"]),
        (
            "registry_run",
            {"node_type": "shell", "parameters": {"x": 1}},
            ['registry_describe with nodes ["shell"]'],
        ),
        ("registry_describe", {"nodes": ["zzzz"]}, ["List them: registry_list"]),
        ("trace_read", {"trace_file": "zzzz"}, ["Pass the run_id or trace_path"]),
        ("settings_get", {"key": "ZZZZ"}, ["Save it with settings_set", "Ask the user"]),
    ],
)
def test_a_failure_names_steps_that_an_agent_can_take(served, tool, given, steps):
    error = served.error(tool, **given)
    assert [step for step in steps if not any(step in it for it in error["suggestions"])] == []
    assert not any("pflow r" in it for it in error["suggestions"])
    assert "the given" not in error["message"]


def test_a_file_that_is_not_utf8_is_refused_not_changed(served, root):
    (root / "latin.json").write_bytes('{"nodes": [{"id": "é"}]}'.encode("latin-1"))
    error = served.error("workflow_validate", workflow="latin.json")
    assert (error["message"], error["suggestions"]) == (
        "latin.json is not UTF-8 (byte 19)",
        ["Save it as UTF-8"],
    )


def test_the_schemas_of_tools_name_only_tools_that_are_served(served):
    for patterns in (["registry_run"], ["workflow_*"], []):
        own = Offer(served.pflow.host, patterns).tools()
        text = json.dumps([[tool.description, tool.input_schema, tool.output_schema] for tool in own])
        named = {tool.name for tool in ALL_TOOLS if tool.name in text}
        assert named <= {tool.name for tool in own}


def test_a_step_names_a_command_where_its_tool_is_not_served(served):
    run = served.error("workflow_execute", workflow=FAILING)["details"]["run_id"]
    assert served.data("trace_read")["error"]["suggestions"][-1].endswith(
        f"workflow_execute with resume {run}"
    )
    offer = Offer(served.pflow.host, ["trace_read", "settings_get"])
    served.tools, served.options = offer.tools, {"hidden": offer.options().hidden}
    assert served.data("trace_read")["error"]["suggestions"][-1].endswith(f"pflow resume {run}")
    assert served.error("settings_get", key="ZZZZ")["suggestions"] == [
        "Ask the user to set it: pflow settings set ZZZZ -"
    ]


def test_a_failed_run_answers_with_error_checkpoint_and_trace(either):
    answer = either.call("workflow_execute", workflow=FAILING)
    assert not answer["success"]
    assert answer["error"]["type"] == "execution"
    assert "second" in answer["error"]["message"]
    assert answer["checkpoint"]["first"]["message"] == "done"
    assert answer["trace_path"].endswith(".json")


def test_every_problem_of_an_invalid_workflow_is_listed(either):
    workflow = flow(step("a", "ecko", {"message": "hi"}), step("b", "echo", {"message": "${c.x}"}))
    error = either.error("workflow_validate", workflow=workflow)
    problems = error["details"]["problems"]
    assert error["type"] == "validation"
    assert {problem["path"] for problem in problems} == {"$.nodes[0].type", "$.nodes[1].params.message"}
    assert any("echo" in problem.get("suggestion", "") for problem in problems)


@pytest.mark.parametrize("given", [5, "nodes: [", "nowhere", {"nodes": []}, {"nodes": [{"type": "ecko"}]}])
def test_an_answer_says_that_it_is_not_valid_whatever_is_wrong(served, given):
    content = served.call("workflow_validate", workflow=given)
    assert content["data"] == {"valid": False}
    assert content["error"]["message"]


def test_neither_a_validation_nor_a_workflow_with_an_error_runs_anything(served, root):
    marker = root / "ran"
    touch = step("a", "shell", {"command": f"touch {marker}"})
    checked = served.data("workflow_validate", workflow=flow(touch))
    assert checked["valid"] is True
    assert (checked["workflow"]["nodes"][0]["id"], bool(checked["workflow"]["ir_version"])) == ("a", True)
    error = served.error("workflow_execute", workflow=flow(touch, step("b", "ecko")))
    assert "ecko" in json.dumps(error)
    assert not marker.exists()


def test_a_saved_workflow_is_listed_discovered_and_run_by_its_name(either):
    saved = either.data(
        "workflow_save", workflow_file=json.dumps(HELLO), name="greet-somebody", description="Greets a person"
    )
    assert saved["name"] == "greet-somebody"
    assert saved["version"] == 1
    listed = either.data("workflow_list")
    assert [each["name"] for each in listed["workflows"]] == ["greet-somebody"]
    assert list(listed["workflows"][0]["inputs"]) == ["name"]
    assert either.data("workflow_list", filter="nothing like it")["workflows"] == []
    found = either.data("workflow_discover", query="greet a person")
    match = found["matches"][0]
    assert match["name"] == "greet-somebody"
    assert {key: match[key] for key in listed["workflows"][0]} == listed["workflows"][0]
    assert 0 < match["confidence"] <= 1
    assert match["reason"]
    assert found["ranked_by"] == "words"
    run = either.data("workflow_execute", workflow="greet-somebody", parameters={"name": "Bo"})
    assert run["outputs"] == {"greeting": "Hello Bo"}


def test_a_workflow_with_errors_is_not_saved(served):
    broken = {"nodes": [{"id": "a", "type": "echo", "params": {"message": "${b.x}"}}]}
    error = served.error("workflow_save", workflow_file=json.dumps(broken), name="broken", description="x")
    assert error["type"] == "validation"
    assert error["details"]["problems"]
    assert served.data("workflow_list")["workflows"] == []


HI = {"nodes": [{"id": "a", "type": "echo", "params": {"message": "hi"}}]}
SECRET = "top-secret-content-of-another-file"


def test_a_link_within_the_folder_may_be_followed(served, root):
    (root / "real.json").write_text(json.dumps(HI), encoding="utf-8")
    (root / "link.json").symlink_to("real.json")
    assert served.data("workflow_execute", workflow="link.json")["outputs"] == {"message": "hi"}


def test_where_no_folder_is_served_a_path_is_refused_with_what_to_pass_instead(served, root):
    (root / "hello.json").write_text(json.dumps(HI), encoding="utf-8")
    for given in (str(root / "hello.json"), "hello.json"):
        answer = served.call("workflow_execute", {"root": None}, workflow=given)
        assert answer["error"]["type"] == "validation"
        assert "JSON" in str(answer["error"]["suggestions"])
    saved = served.call(
        "workflow_save", {"root": None}, workflow_file=json.dumps(HI), name="x", description="y"
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
    run = served.call("workflow_execute", workflow=HI)
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


ECHO = {"nodes": [{"id": "say", "type": "echo", "params": {"message": "hello"}}]}


def test_the_latest_trace_shows_each_step(either):
    run = either.call("workflow_execute", workflow=ECHO)
    trace = either.data("trace_read")
    assert trace["run_id"] == run["data"]["run_id"]
    assert trace["steps"][0]["outputs"] == {"message": "hello"} or "hello" in str(
        trace["steps"][0]["outputs"]
    )
    for given in (run["trace_path"], run["data"]["run_id"], "latest"):
        assert either.data("trace_read", trace_file=given)["run_id"] == run["data"]["run_id"]


def test_a_run_that_has_not_ended_is_named_and_no_other_is_taken_for_it(either, root):
    line = f"touch {root}/began; while [ ! -e {root}/go-on ]; do sleep 0.01; done"
    waiting = {"nodes": [{"id": "wait", "type": "shell", "params": {"command": line}}]}
    earlier = either.data("workflow_execute", workflow=ECHO)["run_id"]

    async def conversation(client):
        async def read(run):
            return either.envelope(await client.call_tool("trace_read", {"trace_file": run}))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "workflow_execute", {"workflow": waiting})
            await either.until((root / "began").exists)
            latest = (await read("latest"))["data"]
            (run,) = latest["running"]
            unended = (await read(run))["error"]
            (root / "go-on").touch()
        return latest["run_id"], run, unended, (await read("latest"))["data"]

    before, run, unended, after = either.talk(conversation)
    assert (before, after["run_id"], "running" in after) == (earlier, run, False)
    assert (unended["type"], unended["message"]) == ("not_found", f"Run {run} has not ended yet")


def test_no_trace_yet_is_said(served):
    assert served.error("trace_read")["type"] == "not_found"


def test_a_long_trace_and_the_items_of_large_batches_are_shortened(served):
    batch = {"items": ["x" * 1_500] * 20, "as": "text"}
    params = {"message": ["${text}"] * 3}
    nodes = [{"id": f"n{number}", "type": "echo", "params": params, "batch": batch} for number in range(6)]
    long = {"id": "last", "type": "echo", "params": {"message": ["x" * 1_500] * 20}}
    served.data("workflow_execute", workflow={"nodes": [*nodes, long]})
    trace = served.data("trace_read")
    assert len(trace["steps"]) == 7
    assert len(trace["steps"][0]["items"]) == 10
    assert trace["steps"][-2]["items"] == "..."
    assert trace["steps"][-1]["cut"]
    assert len(json.dumps(trace)) < 400_000


@pytest.mark.parametrize("given", ["", "x" * 5_000, "a\x1b[31mb", "a\nb"])
def test_what_cannot_be_the_name_of_a_trace_is_refused_and_shown_in_short(served, given):
    served.data("workflow_execute", workflow=ECHO)
    error = served.error("trace_read", trace_file=given)
    assert error["type"] == "validation"
    assert error["message"].isprintable()
    assert len(error["message"]) < 1_000
