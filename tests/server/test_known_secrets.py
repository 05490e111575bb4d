"""No secret of the user, or of a run, is in any answer."""

from __future__ import annotations

import json

import planted_secrets
import pytest

from pflow_mcp_plugin.host.embedded_host import open_host
from pflow_mcp_plugin.server.envelopes import KnownSecrets
from pflow_mcp_plugin.server.offer import Offer

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
