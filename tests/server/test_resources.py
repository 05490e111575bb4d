"""The resources and the prompt that pflow serves, and what the options of `pflow mcp serve` choose."""

import json
import re
import shutil
from contextlib import suppress

import pytest
from conversations import MODES, talk
from mcp.shared.exceptions import MCPError

from pflow_mcp_plugin.contract import PflowError, RunOrigin
from pflow_mcp_plugin.server.offer import ALL_TOOLS, Offer, PflowResources
from pflow_mcp_plugin.server.pflow_server import build_server
from pflow_mcp_plugin.server.served_tool import ServedRequest

GREET = {
    "description": "Greet",
    "nodes": [{"id": "greet", "type": "echo", "params": {"message": "hello"}}],
}


@pytest.fixture
def host(pflow_host):
    pflow_host.host.library.save("greet", GREET)
    return pflow_host.host


@pytest.fixture
def offering(host):
    """The server, with all that it offers."""
    offer = Offer(host)
    return build_server(host, offer.tools, offer.options())


@pytest.fixture
def read(host):
    """Read a resource as some owner; return its one content."""

    def read(uri, owner=""):
        request = ServedRequest(host=host, origin=RunOrigin(owner=owner))
        (content,) = PflowResources().read(request, uri)
        assert content["uri"] == uri
        return content

    return read


def run(host, owner=""):
    return host.runner.run(GREET, {}, name="greet", origin=RunOrigin(owner=owner)).run_id


@pytest.mark.parametrize("mode", MODES)
def test_a_client_lists_and_reads_them(host, offering, mode):
    run_id = run(host)

    async def conversation(client):
        listed = {str(each.uri) for each in (await client.list_resources()).resources}
        contents = {}
        for uri in listed:
            (content,) = (await client.read_resource(uri)).contents
            contents[uri] = content
        templates = (await client.list_resource_templates()).resource_templates
        return contents, {each.uri_template for each in templates}

    contents, templates = talk(offering, conversation, mode)
    assert set(contents) == {
        "pflow://guide",
        "pflow://schema/workflow",
        "pflow://workflows/greet",
        f"pflow://traces/{run_id}",
    }
    assert templates == {"pflow://workflows/{name}", "pflow://traces/{run_id}"}
    assert json.loads(contents["pflow://workflows/greet"].text)["nodes"] == GREET["nodes"]
    assert json.loads(contents[f"pflow://traces/{run_id}"].text)["run_id"] == run_id
    assert json.loads(contents["pflow://schema/workflow"].text)["title"] == "pflow workflow"


def test_a_resource_that_does_not_exist_is_an_error_of_the_protocol(offering):
    async def conversation(client):
        with pytest.raises(MCPError) as caught:
            await client.read_resource("pflow://workflows/nothing")
        return caught.value

    error = talk(offering, conversation)
    assert "No workflow is saved as nothing" in str(error)


def test_a_trace_is_read_by_its_whole_id_or_as_the_latest(read, host):
    run_id = run(host)
    assert read(f"pflow://traces/{run_id}")["text"]["run_id"] == run_id
    assert read("pflow://traces/latest")["text"]["run_id"] == run_id
    with pytest.raises(PflowError, match="There is no trace of run"):
        read(f"pflow://traces/{run_id[:-2]}")


def test_only_traces_of_the_caller_are_listed_and_read(read, host):
    own, others = run(host, "issuer ann"), run(host, "issuer bob")
    request = ServedRequest(host=host, origin=RunOrigin(owner="issuer ann"))
    listed = [str(each["name"]) for each in PflowResources().resources(request)]
    assert own in listed
    assert others not in listed
    assert read(f"pflow://traces/{own}", "issuer ann")["text"]["run_id"] == own
    assert read("pflow://traces/latest", "issuer ann")["text"]["run_id"] == own
    with pytest.raises(PflowError) as caught:
        read(f"pflow://traces/{others}", "issuer ann")
    assert caught.value.kind == "not_found"


def test_a_resource_may_be_bytes(served):
    class Picture(PflowResources):
        def read(self, request, uri):
            return [{"uri": uri, "mimeType": "image/png", "blob": "AAAA"}]

    served.options["resources"] = Picture()
    found = served.talk(lambda client: client.read_resource("pflow://guide"))
    assert found.contents[0].blob == "AAAA"


def test_the_latest_ten_traces_are_listed_and_no_other_file(host):
    ran = [run(host) for _ in range(12)]
    latest = host.traces.find(ran[-1])
    shutil.copy(latest, latest.with_name("a copy.json"))  # the newest
    listed = [str(each["uri"]) for each in PflowResources().resources(ServedRequest(host=host))]
    assert [uri.removeprefix("pflow://traces/") for uri in listed[3:]] == ran[:1:-1]


def test_the_example_of_the_guide_is_valid_and_runs(read, host, tmp_path):
    (example,) = re.findall(r"```json\n(.*?)```", read("pflow://guide")["text"], re.DOTALL)
    workflow = json.loads(example)
    assert host.runner.validate(workflow) == ()
    file = tmp_path / "text.txt"
    file.write_text("one two three", encoding="utf-8")
    outcome = host.runner.run(workflow, {"file": str(file)})
    assert outcome.success
    assert outcome.outputs["count"].strip() == "3"
    assert (tmp_path / "text.txt.count").read_text(encoding="utf-8").startswith("Words: 3")


def test_the_guide_names_tools_and_resources_that_exist(read):
    guide = read("pflow://guide")["text"]
    named = set(re.findall(r"`((?:workflow|registry|settings|trace)_\w+)`", guide))
    assert named <= {tool.name for tool in ALL_TOOLS}
    assert {"workflow_discover", "registry_run", "workflow_validate", "workflow_execute"} <= named
    for uri in re.findall(r"`(pflow://[\w/]+)`", guide):
        read(uri)


@pytest.mark.parametrize("mode", MODES)
def test_the_prompt_walks_an_agent_from_discovery_to_a_saved_workflow(offering, mode):
    async def conversation(client):
        (prompt,) = (await client.list_prompts()).prompts
        assert [(each.name, each.required) for each in prompt.arguments] == [("task", True)]
        return await client.get_prompt(prompt.name, {"task": "Count the {words} of ${a} file"})

    (message,) = talk(offering, conversation, mode).messages
    assert message.role == "user"
    assert "Count the {words} of ${a} file" in message.content.text
    steps = ["workflow_discover", "registry_run", "workflow_validate", "workflow_execute", "workflow_save"]
    places = [message.content.text.index(step) for step in steps[:1] + steps[1:3]]
    assert places == sorted(places)
    named = set(re.findall(r"(?:workflow|registry|trace)_\w+", message.content.text))
    assert {*steps} <= named <= {tool.name for tool in ALL_TOOLS}


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("build-workflow", {}, "task is missing"),
        ("build-workflow", {"task": "  "}, "task is missing"),
        ("build-workflow", {"task": "x" * 10_001}, "at most 10,000"),
        ("other", {"task": "x"}, "There is no prompt other"),
    ],
)
def test_a_wrong_request_is_an_error_of_the_protocol(offering, name, arguments, said):
    async def conversation(client):
        with pytest.raises(MCPError, match=said):
            await client.get_prompt(name, arguments)

    talk(offering, conversation)


READS = {"nodes": [{"id": "say", "type": "echo", "params": {"message": "hello"}}]}
WRITES = {"nodes": [{"id": "run", "type": "shell", "params": {"command": ["true"]}}]}


@pytest.fixture
def names(pflow_host):
    """Return the names of the tools on offer."""
    pflow_host.host.library.save("daily-mail", WRITES)
    pflow_host.host.library.save("daily-report", READS)
    pflow_host.host.library.save("weekly", READS)

    def names(*patterns, **options):
        return [tool.name for tool in Offer(pflow_host.host, patterns, **options).tools()]

    return names


def test_workflows_are_served_when_they_are_asked_for_and_patterns_and_read_only_apply_to_them(names):
    own = [tool.name for tool in ALL_TOOLS]
    assert names() == own
    assert names(workflows=["*"]) == [*own, "daily-mail", "daily-report", "weekly"]
    assert names(workflows=["week*", "daily-mail"]) == [*own, "daily-mail", "weekly"]
    assert names("daily-*", "trace_read", workflows=["*"]) == ["trace_read", "daily-mail", "daily-report"]
    safe = names(workflows=["*"], read_only=True)
    assert ("daily-report" in safe, "weekly" in safe, "daily-mail" in safe) == (True, True, False)


@pytest.mark.parametrize(
    ("patterns", "read_only"), [((), False), ((), True), (("registry_*",), False), (("settings_get",), False)]
)
def test_what_agents_are_told_names_only_tools_that_are_served(pflow_host, patterns, read_only):
    offer = Offer(pflow_host.host, patterns, read_only=read_only)
    served = {tool.name for tool in offer.tools()}
    lacking = [tool.name for tool in ALL_TOOLS if tool.name not in served]

    async def conversation(client):
        texts = [client.instructions, *(tool.description for tool in (await client.list_tools()).tools)]
        (guide,) = (await client.read_resource("pflow://guide")).contents
        prompts = client.server_capabilities.prompts and (await client.list_prompts()).prompts
        return " ".join(texts), guide.text.partition("\n")[0], prompts

    server = build_server(pflow_host.host, offer.tools, offer.options())
    told, begin, prompts = talk(server, conversation, "legacy")
    assert [name for name in lacking if name in told] == []
    assert told.startswith("pflow runs workflows")
    assert begin == (
        f"This server does not serve {', '.join(lacking)}." if lacking else "# Working with pflow"
    )
    assert bool(prompts) == (not lacking)


def test_a_pattern_without_a_tool_is_refused_unless_a_workflow_may_have_the_name_later(names, pflow_host):
    with pytest.raises(PflowError, match="no tool later"):
        names("later")
    offer = Offer(pflow_host.host, ["later"], workflows=["*"])
    assert offer.tools() == ()
    pflow_host.host.library.save("later", READS)
    assert [tool.name for tool in offer.tools()] == ["later"]


def test_workflows_and_traces_are_resources_only_where_a_tool_gives_them(names, pflow_host):
    pflow_host.host.runner.run(READS, {})

    def prefixes(*patterns):
        offer = Offer(pflow_host.host, patterns)

        async def conversation(client):
            listed = [str(it.uri) for it in (await client.list_resources()).resources]
            read = []
            for uri in ("pflow://workflows/weekly", "pflow://traces/latest"):
                with suppress(MCPError):
                    await client.read_resource(uri)
                    read.append(uri)
            templates = [
                it.uri_template for it in (await client.list_resource_templates()).resource_templates
            ]
            return [{uri.split("/")[2] for uri in uris} for uris in (listed, read, templates)]

        return talk(build_server(pflow_host.host, offer.tools, offer.options()), conversation, "legacy")

    always = {"guide", "schema"}
    assert prefixes("workflow_validate") == [always, set(), set()]
    assert prefixes("workflow_list") == [always | {"workflows"}, {"workflows"}, {"workflows"}]
    assert prefixes("trace_read") == [always | {"traces"}, {"traces"}, {"traces"}]
