from pathlib import Path

import attrs
import pytest

from pflow_mcp_plugin import calls
from pflow_mcp_plugin.config.project_file import ProjectFile
from pflow_mcp_plugin.contract import NodeUse, Paths, PflowError, Sketch
from pflow_mcp_plugin.discovery.servers import servers
from pflow_mcp_plugin.exchange import Listing
from pflow_mcp_plugin.nodes import class_for
from pflow_mcp_plugin.registration.lazy_source import LazyToolSource
from pflow_mcp_plugin.registration.tool_source import ToolSource
from pflow_mcp_plugin.storage import CorruptFile
from pflow_mcp_plugin.types import ServerInfo, Tool

INFO = ServerInfo(name="GitHub", version="1.2.0", protocol="2025-11-25")


class World:
    def __init__(self, folder):
        known = servers(Paths(**dict.fromkeys(("config", "data", "state", "cache"), folder)))
        self.store, self.catalog = known.store, known.catalog
        self.source = ToolSource(self.catalog, self.store)

    def add(self, name, *tools, **table):
        self.store.add({name: {"command": "x", **table}})
        if tools:
            self.sync(name, *tools)

    def sync(self, name, *tools):
        listed = tuple(tool if isinstance(tool, Tool) else Tool(name=tool) for tool in tools)
        self.catalog.save(name, Listing(info=INFO, tools=listed), self.store.fingerprint(name))

    def nodes(self):
        return [entry.node for entry in self.source.entries()]


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


@pytest.mark.parametrize("ask", ["entries", "sketches", "records"])
def test_a_corrupt_config_is_not_taken_for_one_without_servers(world, ask):
    world.add("github", "search")
    world.store.path.write_text("x = [")
    with pytest.raises(CorruptFile, match=r"line 1"):
        list(getattr(world.source, ask)())
    with pytest.raises(CorruptFile, match=r"line 1"):
        world.source.get("mcp-github-search")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("github", ["github"]),
        (" GitHub ", ["github"]),
        ("hub", ["github"]),
        ("mcp-github-nope", ["github"]),
        ("the issues of my-team's server on GITHUB", ["github", "my-team"]),
        ("my team", ["my-team"]),
        ("time off", []),
        ("hu", []),
        ("my github-like tool", ["github"]),
        ("", []),
    ],
)
def test_a_search_that_names_a_server_without_tools_is_told_to_sync_it(world, text, named):
    world.add("github")
    world.add("my-team")
    world.add("off", disabled=True)
    world.add("time", "now")
    found = list(world.source.lacking(text))
    assert [problem.message for problem in found] == [f"Server {name} is not synced" for name in named]
    assert [problem.suggestion for problem in found] == [f"Run: pflow mcp sync {name}" for name in named]


def test_an_entry_has_the_shape_that_is_specified(world):
    issue = Tool(
        name="create_issue",
        description="Create a GitHub issue\x1b[2J",
        input_schema={
            "type": "object",
            "properties": {"title": {"type": "string", "description": "Its title"}},
            "required": ["title"],
        },
        output_schema={"type": "object", "properties": {"issue_url": {"type": "string"}}},
    )
    world.add("github", issue)
    data = world.source.get("mcp-github-create-issue").to_dict()
    data["interface"]["outputs"] = [(field["key"], field["type"]) for field in data["interface"]["outputs"]]
    assert data["mcp_config"].pop("manifest_hash").startswith("sha256:")
    assert data.pop("fingerprint").startswith("sha256:")
    assert data == {
        "node": "mcp-github-create-issue",
        "class_name": "MCPNode",
        "module": "pflow_mcp_plugin.execution.node",
        "file_path": "virtual://mcp",
        "type": "mcp_wrapper",
        "source": "mcp",
        "description": "Create a GitHub issue\\u001b[2J",
        "interface": {
            "inputs": ["title"],
            "params": [
                {
                    "key": "title",
                    "type": "str",
                    "required": True,
                    "description": "Its title",
                    "schema": {"type": "string", "description": "Its title"},
                }
            ],
            "outputs": [
                ("issue_url", "str"),
                ("content_blocks", "list"),
                ("result", "dict"),
                ("error", "str | None"),
            ],
            "actions": ["default", "error", "rate_limited", "auth_failed", "resource_missing", "timeout"],
        },
        "purity": "impure",
        "effects": ("untrusted_output", "destructive", "sends_data"),
        "mcp_config": {
            "server_id": "github",
            "tool_name": "create_issue",
            "transport": "stdio",
            "version": "1.2.0",
        },
        "labels": {"server": "github", "tool": "create_issue"},
        "family": "github",
        "local_name": "create_issue",
        "python_class": "pflow_mcp_plugin.nodes:McpGithubCreateIssueNode",
    }


def test_a_read_only_tool_is_flow_safe_once_the_user_trusts_the_claim(world):
    tool = Tool(name="read", annotations={"readOnlyHint": True})
    world.add("a", tool)
    assert world.source.get("mcp-a-read").purity == "impure"
    world.add("a", trust_readonly=True)
    assert world.source.get("mcp-a-read").purity == "flow_safe"


def test_an_entry_names_the_argument_for_the_key_of_a_call_if_the_tool_has_it(world):
    pay = Tool(name="pay", input_schema={"type": "object", "properties": {"key": {}}})
    world.add("a", pay, "give", idempotency_argument={"pay": "key", "give": "key"})
    keys = [world.source.get(f"mcp-a-{name}").idempotency_argument for name in ("pay", "give")]
    assert keys == ["key", ""]


def test_filters_renames_and_removal_work_without_a_sync(world):
    world.add("a", "get_x", "put_x")
    assert world.nodes() == ["mcp-a-get-x", "mcp-a-put-x"]
    assert list(world.source.sketches()) == [Sketch.of(entry) for entry in world.source.entries()]
    world.add("a", tools={"deny": ["put_*"]}, rename={"get_x": "Fetch X"})
    assert world.nodes() == ["mcp-a-fetch-x"]
    assert world.source.get("mcp-a-put-x") is None
    assert world.source.get("mcp-a-get_x").node == "mcp-a-fetch-x"
    assert [record.node for record in world.source.records("a")] == ["mcp-a-fetch-x"]
    assert "excluded by the config" in world.source.missing("mcp-a-put-x").message
    world.add("a", disabled=True)
    assert world.nodes() == []
    assert "disabled" in world.source.missing("mcp-a-get-x").message
    world.store.remove("a")
    assert world.nodes() == []
    assert world.source.missing("mcp-a-get-x").message == "Server a not configured"


def test_a_server_with_mistakes_in_its_table_is_explained_and_the_others_work(world):
    world.add("good", "x")
    with world.store.path.open("a") as file:
        file.write("\n[mcpServers.bad]\ncommand = 3\n")
    assert world.nodes() == ["mcp-good-x"]
    assert world.source.missing("mcp-bad-x").kind == "config"


def test_an_unknown_server_is_named_with_the_nearest(world):
    world.add("github", "create_issue")
    world.add("my-files", "read")
    found = world.source.missing("mcp-githb-create-issue")
    assert found.message == "Server githb not configured"
    assert found.suggestion == "Did you mean mcp-github-create-issue?"
    assert world.source.missing("mcp-my-file-read").suggestion == "Did you mean mcp-my-files-read?"
    found = world.source.missing("mcp-weather-get")
    assert found.message == "Server weather not configured"
    assert "pflow mcp add weather" in found.suggestion
    assert world.source.missing("echo") is None


def test_a_server_that_is_not_synced_or_whose_file_was_corrupt_asks_for_a_sync(world):
    world.add("a")
    found = world.source.missing("mcp-a-x")
    assert (found.message, found.suggestion) == ("Server a is not synced", "Run: pflow mcp sync a")
    world.sync("a", "x")
    (world.catalog.folder / "a.json").write_text("{")
    assert world.source.get("mcp-a-x") is None
    found = world.source.missing("mcp-a-x")
    assert "corrupt" in found.message
    assert found.suggestion == "Run: pflow mcp sync a"


def test_a_tool_that_is_gone_is_told_with_when_and_the_nearest_that_is_there(world):
    world.add("a", "create_issue", "list")
    world.sync("a", "create_issues", "list")
    found = world.source.missing("mcp-a-create-issue")
    assert found.message.startswith("Tool create_issue not found on server a: it no longer existed when")
    assert found.suggestion == "Did you mean mcp-a-create-issues?"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("nope", ""),
        ("word-cnt", "mcp-github-word-count"),
        ("word", "mcp-github-word-count"),
        ("list-issue", "mcp-github-issues"),
        ("isues", "mcp-github-issues"),
    ],
)
def test_only_a_tool_that_is_named_alike_is_suggested(world, typed, meant):
    """All node types of a server begin alike, which makes none of them like another."""
    world.add("github", "now", "word_count", "list_issues", rename={"list_issues": "issues"})
    found = world.source.missing(f"mcp-github-{typed}")
    step = f"Did you mean {meant}?" if meant else "See its tools: pflow mcp tools github"
    assert (found.message, found.suggestion) == (f"Tool {typed} not found on server github", step)


def test_tools_that_share_a_name_are_warned_of(world):
    world.add("a", "b_c")
    world.add("a-b", "c")
    assert list(world.source.clashes({"other"})) == []
    (problem,) = world.source.clashes({"a-b"})
    assert problem.severity == "warning"
    assert all(node in problem.message for node in world.nodes())


def test_a_tool_that_is_gone_leaves_its_name_to_its_own_server_only(world):
    world.add("a", "b_c", "x")
    world.sync("a", "b-c", "x")
    assert world.source.get("mcp-a-b-c").node == "mcp-a-b-c"
    world.add("a-b", "c")
    world.sync("a", "x")
    assert world.source.get("mcp-a-b-c") is None
    problem = world.source.missing("mcp-a-b-c")
    assert "one of them no longer exists" in problem.message
    (named,) = (node for node in world.nodes() if node.startswith("mcp-a-b-c-"))
    assert named in problem.suggestion
    assert world.source.get(named).node == named
    world.sync("a", "x", "b_c")
    world.sync("a-b", "d")
    assert world.source.get("mcp-a-b-c") is None


@pytest.mark.parametrize("server_id", ["github", "github-server"])
def test_the_older_shape_of_a_node_gets_its_type(world, server_id):
    world.add("github", "search_code")
    node = {
        "id": "mcp-github-search-code",
        "version": "1.0.0",
        "type": "mcp_wrapper",
        "params": {"max_results": 15},
        "mcp_metadata": {"server_id": server_id, "tool_name": "search_code", "version": "1.2.0"},
    }
    assert world.source.upgrade(node) == {**node, "type": "mcp-github-search-code"}
    assert world.source.upgrade({**node, "id": "find"})["type"] == "mcp-github-search-code"
    assert world.source.upgrade({**node, "type": "mcp-github-search-code"}) is None
    assert world.source.upgrade({"id": "x", "type": "echo"}) is None


def test_the_older_shape_of_an_unknown_server_keeps_its_name_so_that_it_is_explained(world):
    node = {"id": "mcp-slack-send", "type": "mcp_wrapper", "mcp_metadata": {"server_id": "slack-server"}}
    assert world.source.upgrade(node)["type"] == "mcp-slack-send"
    assert world.source.upgrade({**node, "id": "send"}) is None
    named = {**node, "id": "send", "mcp_metadata": {"server_id": "slack", "tool_name": "post_it"}}
    assert world.source.upgrade(named)["type"] == "mcp-slack-post-it"
    assert "Server slack not configured" in world.source.missing("mcp-slack-post-it").message


def test_the_fingerprint_follows_syncs_and_the_config(world):
    paths = Paths(**dict.fromkeys(("config", "data", "state", "cache"), world.store.path.parent))
    source = LazyToolSource(paths)
    seen = {source.fingerprint()}
    world.add("a")
    seen.add(source.fingerprint())
    world.sync("a", "x")
    seen.add(source.fingerprint())
    world.add("a", disabled=True)
    seen.add(source.fingerprint())
    assert len(seen) == 4


def test_an_approval_counts_at_once_for_a_tool_that_was_looked_up_before(world):
    flag = {"type": "boolean", "default": False}
    old = Tool(name="deploy", input_schema={"type": "object", "properties": {"force": flag}})
    flag = {"type": "boolean", "default": True}
    new = Tool(name="deploy", input_schema={"type": "object", "properties": {"force": flag}})
    world.add("a", new)

    def problems(**approved):
        world.catalog.mark("a", lambda found: attrs.evolve(found, approved=approved))
        use = NodeUse(entry=world.source.get("mcp-a-deploy"), params={})
        return [it.message for it in world.source.check_use(use)]

    for _ in range(2):
        assert problems() == []
        (message,) = problems(deploy=old)
        assert "the default of force, which is left out" in message


@pytest.fixture
def project(tmp_path, monkeypatch):
    """The paths of pflow, in a folder with the file of a project."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / ".mcp.json").write_text('{"mcpServers": {"my-say": {"command": "say"}}}')
    monkeypatch.chdir(folder)
    return Paths(**{name: tmp_path / "pflow" / name for name in ("config", "data", "state", "cache")})


def test_the_tools_of_an_approved_project_are_nodes(project):
    warnings = []
    source = LazyToolSource(project, warnings.append)
    assert (
        ".mcp.json has it; run: pflow mcp approve --project" in source.missing("mcp-my-say-loud").suggestion
    )
    assert source.missing("mcp-my-say-loud").message == "Server my-say not configured"
    assert "pflow mcp add" in source.missing("mcp-other-say").suggestion
    before = source.fingerprint()
    file = ProjectFile(project)
    file.approve(file.content(), ["my-say"])
    listing = Listing(info=INFO, tools=(Tool(name="loud"),))
    known = servers(project)
    known.catalog.save("my-say", listing, known.store.fingerprint("my-say"))
    assert [entry.node for entry in source.entries()] == ["mcp-my-say-loud"]
    after = source.fingerprint()
    assert after != before
    assert source.missing("mcp-my-say-soft").message == "Tool soft not found on server my-say"
    Path(".mcp.json").write_text("{}")
    assert list(source.entries()) == []
    assert source.fingerprint() != after
    assert warnings == []


def test_a_warning_about_a_project_is_reported_when_the_source_is_loaded(project):
    warnings = []
    source = LazyToolSource(attrs.evolve(project, project=Path.cwd()), warnings.append)
    source.fingerprint()
    assert warnings == []
    assert list(source.entries()) == []
    assert "is not approved, and used because you asked for it" in warnings[0].message


def test_the_files_of_a_project_are_listed_where_there_is_one(project, tmp_path, monkeypatch):
    source = LazyToolSource(project)
    assert source.files[Path.cwd() / ".mcp.json"] == "servers of the project"
    assert project.data / "approvals.json" not in source.files
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    assert not {".mcp.json", "approvals.json", "projects"} & {path.name for path in source.files}
    gone.rmdir()
    assert not {".mcp.json", "approvals.json", "projects"} & {path.name for path in source.files}


ISSUE = {
    "type": "object",
    "$defs": {
        "label": {
            "type": "object",
            "properties": {"name": {"type": "string", "maxLength": 5}, "colour": {"enum": ["red", "blue"]}},
            "required": ["name"],
        }
    },
    "properties": {
        "title": {"type": "string", "minLength": 2},
        "labels": {"type": "array", "items": {"$ref": "#/$defs/label"}, "maxItems": 3},
        "priority": {"type": "integer", "minimum": 1, "maximum": 5},
        "until": {"type": "string", "default": None},
        "at": {"oneOf": [{"properties": {"day": {"const": 1}}}, {"properties": {"day": {"const": 2}}}]},
    },
    "required": ["title"],
}


@pytest.fixture
def validate(pflow_host):
    """Return what is wrong with nodes of a stubbed tool, as (path, message)."""
    tool = Tool(name="create", input_schema=ISSUE)
    open_tool = Tool(name="open", input_schema={"type": "object", "anyOf": [{"required": ["q"]}]})
    pflow_host.stub("desk", [tool, open_tool]).give("create", {"ok": True})

    def validate(params, node_type="mcp-desk-create", **rest):
        first = {"id": "first", "type": "echo", "params": {"message": "hi"}}
        node = {"id": "a", "type": node_type, "params": params}
        workflow = {"nodes": [first, {**node, **rest.pop("node", {})}], **rest}
        return [(it.path, it.message) for it in pflow_host.host.runner.validate(workflow) if it.path]

    return validate


def test_what_is_known_of_arguments_is_checked_before_a_run_as_the_call_does(validate):
    found = validate(
        {"title": "t", "labels": [{"colour": "green"}, {"name": "much too long"}], "priority": 9}
    )
    whose = "of tool create on server desk: expected"
    assert found == [
        ("$.nodes[1].params.title", f'Argument title {whose} 2 characters or more, given "t" (str)'),
        (
            "$.nodes[1].params.labels[0].colour",
            f'Argument labels[0].colour {whose} one of "red", "blue", given "green" (str)',
        ),
        ("$.nodes[1].params.labels[0].name", f"Argument labels[0].name {whose} a value, given nothing"),
        (
            "$.nodes[1].params.labels[1].name",
            f'Argument labels[1].name {whose} 5 characters or fewer, given "much too long" (str)',
        ),
        ("$.nodes[1].params.priority", f"Argument priority {whose} at most 5, given 9 (int)"),
    ]


@pytest.mark.parametrize(
    "params",
    [
        {"title": "${first.message}", "labels": "${first.message}"},
        {"title": "to", "labels": ["${first.message}", {"name": "a ${first.message}", "colour": "red"}]},
        {"title": "to", "until": None, "priority": "3"},
        {"title": "to", "at": {"day": "${first.message}"}},
        {"title": "to", "at": {"${first.message}": 1, "day": 1}},
    ],
)
def test_what_only_the_run_knows_is_left_to_it(validate, params):
    assert validate(params) == []


def test_a_missing_or_unknown_argument_is_one_problem(validate):
    ((path, message),) = validate({"labels": []})
    assert (path, "needs parameter title" in message) == ("$.nodes[1].params", True)
    ((path, message),) = validate({"title": "to", "lable": []})
    assert (path, "has no parameter lable" in message) == ("$.nodes[1].params.lable", True)


def test_items_that_are_written_in_a_batch_are_checked_one_by_one(validate):
    batch = {"items": [{"p": 1}, {"p": 7}, {"p": "${first.message}"}]}
    ((path, message),) = validate({"title": "to", "priority": "${item.p}"}, node={"batch": batch})
    assert path == "$.nodes[1].params.priority"
    assert message.endswith("expected at most 5, given 7 (int) (item 1 of the batch)")


def test_null_where_it_is_the_default_means_not_given_however_it_comes(pflow_host):
    items = {"type": "array", "items": {"properties": {"x": {"type": "string", "default": None}}}}
    properties = {
        "plain": {"type": "string", "default": None},
        "mode": {"$ref": "#/$defs/mode", "default": None},
        "nested": items,
        "open": {"type": "integer", "nullable": True},
        "both": {"type": ["string", "null"], "default": None},
    }
    schema = {"type": "object", "$defs": {"mode": {"enum": ["a"]}}, "properties": properties}
    answers = pflow_host.stub("desk", [Tool(name="create", input_schema=schema)])
    answers.give("create", {"ok": True})
    given = {"plain": None, "mode": None, "nested": [{"x": None, "y": None}], "open": None, "both": None}
    sent = {"nested": [{"y": None}], "open": None, "both": None}
    node = {"id": "a", "type": "mcp-desk-create"}
    of_null = {"id": "n", "type": "transform", "params": {"outputs": dict.fromkeys(properties, "null")}}
    templates = {key: f"${{n.{key}}}" for key in ("plain", "mode", "open", "both")}
    assert pflow_host.run({"nodes": [{**node, "params": given}]}).success
    assert pflow_host.run({"nodes": [of_null, {**node, "params": templates}]}).success
    assert pflow_host.host.runner.run_node("mcp-desk-create", given).outcome.success
    calls.call("desk", "create", **given)
    class_for("mcp-desk-create")(**given).run({})
    class_for("mcp-desk-create")().run(dict(given))
    nulls = {"open": None, "both": None}
    assert answers.arguments("create") == [sent, nulls, sent, sent, sent, sent]


CLOSED = {
    "type": "object",
    "properties": {"title": {"type": "string", "minLength": 2}},
    "required": ["title"],
}


@pytest.fixture
def desk(pflow_host):
    answers = pflow_host.stub("desk", [Tool(name="create", input_schema=CLOSED)])
    answers.give("create", {"ok": True})
    return answers


def test_what_is_typed_on_a_command_line_is_judged_without_a_word_of_a_workflow(desk, pflow_host):
    for words in (["--title", "x"], ["--params", '{"title": "x"}']):
        with pytest.raises(PflowError) as raised:
            pflow_host.host.run_chain(["mcp-desk-create", *words], "pflow")
        assert raised.value.message == (
            'Argument title of tool create on server desk: expected 2 characters or more, given "x" (str)'
        )
    with pytest.raises(PflowError) as raised:
        pflow_host.host.runner.run_node("mcp-desk-create", {"title": "x"})
    assert raised.value.message.startswith("Argument title of tool create")
    with pytest.raises(PflowError) as raised:
        pflow_host.host.run_chain(["mcp-desk-create", "--params", '{"title": [1]}'], "pflow")
    assert raised.value.message == "--params of mcp-desk-create: title must be str, got list [1]"
    assert desk.calls == []


def test_arguments_that_are_not_declared_are_sent_where_that_is_allowed(desk, pflow_host):
    runner = pflow_host.host.runner
    node = {"id": "a", "type": "mcp-desk-create", "params": {"title": "to", "more": 1}}
    strict = {"id": "b", "type": "mcp-desk-create", "params": {"title": "to"}}
    assert [it.message for it in runner.validate({"nodes": [node]}) if it.path] == [
        "Node a (mcp-desk-create) has no parameter more"
    ]
    with pytest.raises(PflowError):
        pflow_host.run({"nodes": [node]})
    assert pflow_host.run({"nodes": [{**node, "extra": True}, strict]}).success
    assert runner.allowing_extra().run({"nodes": [node]}, {}).success
    assert runner.run_node("mcp-desk-create", node["params"], allow_extra=True).outcome.success
    words = ["mcp-desk-create", "--title", "to", "--param", "more=1", "--allow-extra"]
    assert pflow_host.host.run_chain(words, "pflow").error is None
    with pytest.raises(PflowError, match="has no parameter more"):
        pflow_host.host.run_chain(words[:-1], "pflow")
    kept = pflow_host.host.run_chain([*words, "--print"], "pflow").data
    assert kept["nodes"][0]["extra"] is True
    both = {"title": "to", "more": 1}
    assert desk.arguments("create") == [both, {"title": "to"}, both, both, {"title": "to", "more": "1"}]


def test_what_a_schema_forbids_is_refused_even_if_extra_arguments_are_allowed(pflow_host):
    pflow_host.stub("desk", [Tool(name="create", input_schema={**CLOSED, "additionalProperties": False})])
    node = {"id": "a", "type": "mcp-desk-create", "params": {"title": "to", "more": 1}, "extra": True}
    (problem,) = [it for it in pflow_host.host.runner.validate({"nodes": [node]}) if it.path]
    assert problem.path == "$.nodes[0].params.more"
    assert "expected no such key" in problem.message


def test_what_is_wrong_in_a_workflow_that_a_typed_node_runs_keeps_its_place(desk, pflow_host):
    inner = {"nodes": [{"id": "a", "type": "mcp-desk-create", "params": {"title": "x"}}]}
    with pytest.raises(PflowError) as raised:
        pflow_host.host.runner.run_node("workflow", {"workflow": inner})
    (problem,) = raised.value.problems
    assert problem.path == "$.nodes[0].params.workflow.nodes[0].params.title"


def test_a_tool_that_lists_no_arguments_takes_any_by_every_spelling(pflow_host):
    answers = pflow_host.stub("desk", [Tool(name="free", input_schema={"type": "object"})])
    answers.give("free", {"ok": True})
    for words in (["--size", "3"], ["size=3"], ["--param", "size=3"], ["--params", '{"size": "3"}']):
        assert pflow_host.host.run_chain(["mcp-desk-free", *words], "pflow").error is None
    assert answers.arguments("free") == [{"size": "3"}] * 4
