"""What an export writes."""

from __future__ import annotations

import json

import pytest

from pflow_mcp_plugin.config.interchange import transfer_plans
from pflow_mcp_plugin.config.interchange.clients import CLIENTS
from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.storage import CorruptFile

A = {"command": "a", "env": {"API_TOKEN": "${API_TOKEN}"}}


def merged(tmp_path, name, text, client, tables):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return transfer_plans.merged(transfer_plans.plan_export(CLIENTS[client], tables), path)


def test_a_server_in_the_file_keeps_the_fields_that_are_its_clients_own(tmp_path):
    servers = {"a": {"command": "old", "args": ["x"], "trust": True}, "b": {"command": "b"}}
    text = json.dumps({"mcpServers": servers, "ui": 1})
    made = merged(tmp_path, "settings.json", text, "gemini-cli", {"a": A})
    assert json.loads(made.text) == {"mcpServers": {"a": {**A, "trust": True}, "b": servers["b"]}, "ui": 1}
    assert made.replaced == ("a",)
    assert not made.loses_comments


def test_inputs_are_defined_once_and_those_of_the_file_stay(tmp_path):
    text = '{"inputs": [{"id": "api-token", "type": "promptString", "description": "Mine"}], "servers": {}}'
    both = {"a": A, "b": {"command": "b", "args": ["${OTHER_KEY}"], "env": A["env"]}}
    document = json.loads(merged(tmp_path, "mcp.json", text, "vscode", both).text)
    inputs = {item["id"]: item["description"] for item in document["inputs"]}
    assert inputs == {"api-token": "Mine", "a-api-token": "API_TOKEN", "other-key": "OTHER_KEY"}


@pytest.mark.parametrize("other", ["${LEVEL:-b}", "${level:-a}"])
def test_variables_or_defaults_that_differ_get_inputs_of_their_own(tmp_path, other):
    two = {"command": "a", "args": ["${LEVEL:-a}", other]}
    document = merged(tmp_path, "mcp.json", '{"servers": {}}', "vscode", {"a": two}).text
    assert json.loads(document)["servers"]["a"]["args"] == ["${input:level}", "${input:a-level}"]
    assert merged(tmp_path, "mcp.json", document, "vscode", {"a": two}).text == document


def test_a_server_gets_no_input_of_another_but_keeps_its_own_as_the_user_changed_it(tmp_path):
    defined = {"id": "api-token", "type": "promptString", "description": "Theirs"}
    there = {"inputs": [defined], "servers": {"other": {"command": "o", "args": ["${input:api-token}"]}}}
    document = json.loads(merged(tmp_path, "mcp.json", json.dumps(there), "vscode", {"a": A}).text)
    assert document["servers"]["a"]["env"] == {"API_TOKEN": "${input:a-api-token}"}
    document["servers"]["a"]["env"] = {"API_TOKEN": "${input:api-token}"}
    again = merged(tmp_path, "mcp.json", json.dumps(document), "vscode", {"a": A})
    assert json.loads(again.text)["servers"]["a"]["env"] == {"API_TOKEN": "${input:a-api-token}"}
    document = json.loads(again.text)
    document["inputs"][1]["description"] = "My token"
    again = merged(tmp_path, "mcp.json", json.dumps(document), "vscode", {"a": A})
    assert json.loads(again.text) == document


def test_settings_that_hold_servers_get_them_there(tmp_path):
    made = merged(tmp_path, "settings.json", '{"mcp": {"servers": {}}}', "vscode", {"a": A})
    assert set(json.loads(made.text)["mcp"]) == {"servers", "inputs"}


def test_comments_of_toml_stay(tmp_path):
    text = '# mine\nmodel = "x"\n\n[mcp_servers.b] # b\ncommand = "b"\n'
    made = merged(tmp_path, "config.toml", text, "codex", {"a": A, "b": {"command": "c"}})
    assert made.text.startswith('# mine\nmodel = "x"\n')
    assert 'env_vars = [\n    "API_TOKEN",\n]' in made.text
    assert made.loses_comments  # that of the replaced table
    assert not merged(tmp_path, "config.toml", text, "codex", {"a": A}).loses_comments


def test_comments_of_json_stay_but_those_in_a_replaced_server(tmp_path):
    made = merged(tmp_path, "s.json", '{// x\n"context_servers": {"b": 1}} // y', "zed", {"a": A})
    assert made.text.startswith('{// x\n"context_servers": {"b": 1,')
    assert made.text.endswith("} // y")
    assert not made.loses_comments
    text = '{"context_servers": {"a": {"command": "old" /* gone */}}} // y'
    made = merged(tmp_path, "s.json", text, "zed", {"a": A})
    assert made.text.endswith("} // y")
    assert made.loses_comments


def test_inputs_are_put_beside_the_servers_and_comments_stay(tmp_path):
    made = merged(tmp_path, "mcp.json", '{"servers": {}, /* mine */}', "vscode", {"a": A})
    assert "/* mine */" in made.text
    assert '"id": "api-token"' in made.text


def test_comments_of_yaml_are_lost_and_it_is_said(tmp_path):
    assert merged(tmp_path, "c.yaml", "a: 1 # x\n", "goose", {"a": A}).loses_comments


@pytest.mark.parametrize(
    ("name", "text", "client", "error"),
    [
        ("mcp.json", "{oops", "cursor", CorruptFile),
        ("mcp.json", "[]", "cursor", PflowError),
        ("mcp.json", "[1]", "cursor", PflowError),
        ("mcp.json", '{"mcpServers": []}', "cursor", PflowError),
        ("config.toml", "", "cursor", PflowError),
    ],
)
def test_a_file_of_another_shape_is_not_written_over(tmp_path, name, text, client, error):
    with pytest.raises(error):
        merged(tmp_path, name, text, client, {"a": A})


def test_a_disabled_server_is_left_out_where_that_cannot_be_said():
    table = {**A, "disabled": True}
    assert "disabled" in transfer_plans.plan_export(CLIENTS["cursor"], {"a": table}).servers[0].reason
    assert transfer_plans.plan_export(CLIENTS["zed"], {"a": table}).servers[0].table["enabled"] is False


@pytest.mark.parametrize("secret", ["planted-1", "planted/1.2", "p@ss/w.rd!"])
def test_secrets_of_any_one_word_that_our_config_writes_out_are_named(secret):
    table = {"command": "x", "args": [f"--token={secret}"], "env": {"API_KEY": "planted-2"}}
    [server] = transfer_plans.plan_export(CLIENTS["cursor"], {"a": table}).servers
    assert set(server.literals) == {"args[0]", "env.API_KEY"}
