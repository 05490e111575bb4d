"""The tools for settings mask what they save, and no secret of the user, or of a run, is in any answer."""

import json
import re

import attrs
import planted_secrets
import pytest

from pflow_mcp_plugin.config.project_file import ProjectFile
from pflow_mcp_plugin.discovery.servers import servers
from pflow_mcp_plugin.host.embedded_host import open_host
from pflow_mcp_plugin.server.envelopes import KnownSecrets
from pflow_mcp_plugin.server.offer import Offer

TOKEN = "tok-9f8e7d6c5b4a-PLANTED"


def test_a_setting_is_saved_and_its_value_is_not_repeated(either):
    answer = either.call("settings_set", key="SERVICE_TOKEN", value=TOKEN)
    assert answer["data"] == {"key": "SERVICE_TOKEN", "saved": True}
    assert either.pflow.host.settings.get("SERVICE_TOKEN") == TOKEN
    read = either.call("settings_get", key="SERVICE_TOKEN")
    assert read["data"] == {"key": "SERVICE_TOKEN", "value": "****", "masked": True}


def test_a_secret_is_shown_only_if_the_config_allows_it(served):
    served.data("settings_set", key="SERVICE_TOKEN", value=TOKEN)
    shown = served.call("settings_get", {"show_secrets": lambda: True}, key="SERVICE_TOKEN")
    assert shown["data"] == {"key": "SERVICE_TOKEN", "value": TOKEN, "masked": False}


def test_a_value_that_the_user_marked_as_no_secret_is_shown_until_an_agent_replaces_it(served):
    served.pflow.host.settings.set("BASE_TOKEN_URL", "https://a.example/token", plain=True)
    shown = served.data("settings_get", key="BASE_TOKEN_URL")
    assert shown == {"key": "BASE_TOKEN_URL", "value": "https://a.example/token", "masked": False}
    served.data("settings_set", key="BASE_TOKEN_URL", value=TOKEN)
    assert served.data("settings_get", key="BASE_TOKEN_URL")["value"] == "****"


def test_row_55_an_agent_sets_nothing_that_decides_what_is_started(served):
    allowed = ("SERVICE_TOKEN", "CLIENT_SECRET")
    login = {"type": "oauth", "issuer": "${ISSUER}", "client_secret": "${CLIENT_SECRET}", "client_id": "x"}
    believed = {"ca_bundle": "${AUTHORITIES}", "tls_pins": "${PINS}", "auth": login}
    tables = {
        "local": {"command": "python", "args": ["${SCRIPT}", "--token", "${API_KEY}"], "cwd": "${FOLDER}"},
        "remote": {"type": "http", "url": "https://${HOST}/mcp", "env": {"HOST": "${PLACE}"}},
        "believed": {"type": "http", "url": "https://example.com/mcp", **believed},
        "socket": {"type": "uds", "path": "${SOCKET}"},
        "code": {"command": "x", "env": {"PYTHONPATH": "${LIBRARIES}", "SERVICE_TOKEN": "${SERVICE_TOKEN}"}},
    }
    servers(served.pflow.host.paths).store.add(tables)
    served.pflow.host.refresh("mcp")
    decisive = set(re.findall(r"\$\{(\w+)\}", str(tables))) - set(allowed)
    assert len(decisive) == 10
    for key in decisive:
        error = served.error("settings_set", key=key, value="evil")
        assert error["type"] == "validation"
        assert (
            f"{key} cannot be set here: it decides what is started or reached for server" in error["message"]
        )
        assert error["suggestions"] == [f"Ask the user to set it: pflow settings set {key} -"]
        assert served.pflow.host.settings.get(key) is None
    for key in allowed:
        assert served.data("settings_set", key=key, value=TOKEN)["saved"]


def test_row_55_an_agent_sets_nothing_that_decides_what_an_approved_project_starts(served, tmp_path):
    table = {"command": "python", "args": ["${SCRIPT}"]}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"local": table}}))
    project = ProjectFile(attrs.evolve(served.pflow.host.paths, project=tmp_path))
    project.approve(project.content(), ["local"])
    error = served.error("settings_set", key="SCRIPT", value="evil")
    assert "it decides what is started or reached for server local" in error["message"]
    assert served.data("settings_set", key="OTHER", value="x")["saved"]


def test_row_55_an_agent_sets_nothing_of_pflow_itself_and_nothing_kept_elsewhere(served):
    settings = served.pflow.host.settings
    for key in ("PFLOW_TRACE_DAYS", "pflow_trace_days", "PFLOW_ANYTHING"):
        assert "settings of pflow itself" in served.error("settings_set", key=key, value="0.00001")["message"]
        assert settings.get(key) is None
    settings.set_command("VAULT_TOKEN", ["printf", "kept"])
    assert "comes from a command" in served.error("settings_set", key="VAULT_TOKEN", value="x")["message"]
    assert settings.get("VAULT_TOKEN") == "kept"


PLANTED = "Zx81-planted/secret+value==9Q"


def _say(text):
    return {"nodes": [{"id": "say", "type": "echo", "params": {"message": text}}]}


def test_secrets_are_redacted_by_name_or_form_and_short_and_ordinary_values_are_not(served):
    ordinary = {"DEFAULT_BRANCH": "main-branch-name", "SORT_KEY": "main", "API_KEY": "x1"}
    token = "ghp_" + "a1B2" * 9
    for key, value in {**ordinary, "MY_TOKEN": PLANTED, "MY_STUFF": f"user {token}"}.items():
        served.data("settings_set", key=key, value=value)
    said = " ".join(ordinary.values())
    data = served.data("workflow_execute", workflow=_say(f"{said} {PLANTED} {token}"))
    assert data["outputs"] == {"message": f"{said} *** ***"}


def test_the_tools_of_saved_workflows_show_none_and_no_default_of_a_secret_input(either):
    hidden = {"type": "str", "secret": True, "default": "hunter2hunter2"}
    inputs = {"shown": {"type": "str", "default": PLANTED}, "hidden": hidden}
    workflow = {**_say("x"), "inputs": inputs}
    either.pflow.host.library.save("one", workflow, f"d {PLANTED}")
    either.data("settings_set", key="SERVICE_TOKEN", value=PLANTED)
    either.tools = Offer(either.pflow.host, workflows=("*",)).tools

    async def listed(client):
        return [tool.model_dump_json() for tool in (await client.list_tools()).tools]

    tools = either.talk(listed)
    assert "one" in "".join(tools)
    assert planted_secrets.remains(PLANTED, tools) == []
    assert "hunter2hunter2" not in "".join(tools)


@pytest.mark.parametrize(
    "word",
    ["object", "properties", "greeting", "success", "message", "not_found", "mimeType", "contents"],
)
def test_a_secret_that_is_a_word_of_the_protocol_breaks_no_answer(served, word):
    given = {"greeting": {"type": "str", "description": word}}
    workflow = {**_say("${greeting}"), "inputs": given, "outputs": {"said": "${say.message}"}}
    served.pflow.host.library.save("one", workflow, "")
    offer = Offer(served.pflow.host, workflows=("*",))
    served.tools = offer.tools
    served.options = {"resources": offer.options().resources, "prompts": offer.options().prompts}
    served.data("settings_set", key="API_KEY", value=word)

    async def conversation(client):
        assert (await client.list_resources()).resources[0].mime_type == "text/markdown"
        assert (await client.read_resource("pflow://guide")).contents[0].mime_type == "text/markdown"
        prompt = await client.get_prompt("build-workflow", {"task": word})
        assert (prompt.messages[0].role, word in prompt.messages[0].content.text) == ("user", False)
        [tool] = [tool for tool in (await client.list_tools()).tools if tool.name == "one"]
        calls = (("one", {"greeting": word}), ("workflow_execute", {"workflow": "two"}))
        return tool.input_schema, [(await client.call_tool(*call)).structured_content for call in calls]

    schema, (ran, failed) = served.talk(conversation)
    assert schema["properties"] == {"greeting": {"type": "string", "description": "***"}}
    assert (schema["type"], schema["required"]) == ("object", ["greeting"])
    assert ran == {"said": "***"}
    assert (failed["success"], failed["error"]["type"]) == (False, "not_found")
    assert served.data("workflow_execute", workflow=_say(word))["outputs"]


def test_a_number_that_is_a_secret_is_redacted_and_what_is_answered_stays_valid(served):
    served.data("settings_set", key="BANK_PASSWORD", value="83726154")
    code = "result = [number * sign for number in (8372_6154, 8372_6154.0) for sign in (1, -1)]"
    ran = served.data("registry_run", node_type="python", parameters={"code": code})
    assert ran["outputs"]["result"] == ["***"] * 4
    given = {"inputs": {"n": {"type": "int"}}, "outputs": {"n": "${n}"}, **_say("83726154")}
    served.pflow.host.library.save("typed", given, "")
    offer = Offer(served.pflow.host, workflows=("*",))
    served.tools, served.options = offer.tools, {"resources": offer.options().resources}

    async def conversation(client):
        [content] = (await client.read_resource("pflow://workflows/typed")).contents
        assert json.loads(content.text)["nodes"][0]["params"] == {"message": "***"}
        return await client.call_tool("typed", {"n": 83726154})

    refused = served.talk(conversation)
    error = json.loads(refused.content[0].text)["error"]
    assert (refused.is_error, refused.structured_content) == (True, None)
    assert "It ran" in error["message"]
    assert error["details"]["run_id"]


def test_a_workflow_is_not_replaced_by_what_answers_show_of_it(served):
    served.pflow.host.library.save("one", _say(f"*** {PLANTED} ***"), "")
    served.data("settings_set", key="SERVICE_TOKEN", value=PLANTED)
    checked = served.data("workflow_validate", workflow="one")
    assert "do not save" in checked["problems"][-1]["message"]
    edited = json.dumps(checked["workflow"]).replace("*** ", "*** now ", 1)
    error = served.error("workflow_save", workflow_file=edited, name="one", description="d")
    assert "has *** where one has a secret" in error["message"]
    whole = json.dumps(_say(f"*** now {PLANTED} ***"))
    for text, name in ((whole, "one"), (edited, "two"), (edited, "two"), ("one", "one")):
        served.data("workflow_save", workflow_file=text, name=name, description="d")


def test_a_setting_that_another_process_saves_is_redacted_from_then_on(served):
    assert served.data("workflow_execute", workflow=_say(PLANTED))["outputs"] == {"message": PLANTED}
    with open_host() as other:
        other.settings.set("SERVICE_TOKEN", PLANTED)
    assert served.data("workflow_execute", workflow=_say(PLANTED))["outputs"] == {"message": "***"}


def test_settings_that_cannot_be_read_fail_only_what_needs_them(either):
    (either.pflow.home / "config").mkdir(parents=True)
    (either.pflow.home / "config" / "settings.json").write_text("{not JSON")
    failed = either.call("settings_get", key="SERVICE_TOKEN")
    assert "line 1, column 2" in failed["error"]["message"]
    assert either.data("workflow_execute", workflow=_say("hi"))["outputs"]["message"] == "hi"


def test_secrets_that_were_read_are_redacted_when_the_settings_no_longer_can_be(pflow_home):
    with open_host() as host:
        host.settings.set("SERVICE_TOKEN", PLANTED)
        known = KnownSecrets(host)
        assert known.redactor().value(PLANTED) == "***"
        host.settings.path.write_text("{not JSON")
        assert known.redactor().value(PLANTED) == "***"


def test_progress_does_not_show_it(served):
    served.data("settings_set", key="SERVICE_TOKEN", value=PLANTED)
    messages = []

    async def conversation(client):
        async def progress(_done, _total, message):
            messages.append(message or "")

        node = {"id": PLANTED.replace("/", "-"), "type": "echo", "params": {"message": "x"}}
        workflow = {"nodes": [{**node, "id": "a", "purpose": PLANTED}]}
        await client.call_tool("workflow_execute", {"workflow": workflow}, progress_callback=progress)

    served.talk(conversation)
    assert messages
    assert planted_secrets.remains(PLANTED, messages) == []
