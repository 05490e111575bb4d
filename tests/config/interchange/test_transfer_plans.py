"""What an import would do, what an export writes, and secrets written out in a server's table."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import pytest

from pflow_mcp_plugin.config import server_schema
from pflow_mcp_plugin.config.interchange import transfer_plans
from pflow_mcp_plugin.config.interchange.client_documents import FileContent, ForeignServer
from pflow_mcp_plugin.config.interchange.clients import CLIENTS
from pflow_mcp_plugin.config.interchange.server_translation import ServerReading
from pflow_mcp_plugin.config.interchange.transfer_plans import extracted
from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.storage import CorruptFile


def file(path, **tables):
    servers = (
        ForeignServer(given=name, name=name, reading=ServerReading(table=table))
        for name, table in tables.items()
    )
    return FileContent(title="Client", client="client", path=Path(path), servers=tuple(servers))


def plan(*files, configured=(), force=False, taken=(), settings=()):
    return transfer_plans.plan_import(
        files,
        dict(configured),
        force=force,
        check=lambda name, table: [
            it for it in server_schema.check_server(name, table) if it.severity == "error"
        ],
        is_taken=lambda name, value: name in taken,
        origin=lambda name: "settings" if name in settings else "",
    )


def actions(made):
    return [each.action for each in made.servers]


A, B = {"command": "a"}, {"command": "b"}


@pytest.mark.parametrize(
    ("configured", "force", "action"),
    [
        ({}, False, "add"),
        ({"s": A}, False, "same"),
        ({"s": B}, False, "skip"),
        ({"s": B}, True, "replace"),
    ],
)
def test_a_configured_server_is_replaced_only_by_force(configured, force, action):
    made = plan(file("one", s=A), configured=configured, force=force)
    assert actions(made) == [action]
    assert made.tables(with_references=True) == ({"s": A} if action in ("add", "replace") else {})


def test_of_several_servers_with_one_name_the_first_counts():
    made = plan(file("one", s=A), file("two", s=A), file("three", s=B), force=True)
    assert actions(made) == ["add", "same", "skip"]
    assert "comes from one" in made.servers[2].reason
    assert made.tables(with_references=True) == {"s": A}


def test_a_server_with_mistakes_is_refused_and_the_others_are_not():
    made = plan(file("one", s={"command": "a", "args": "text"}, t=A))
    assert actions(made) == ["refuse", "add"]
    assert made.servers[0].problems[0].path == "mcpServers.s.args"
    foreign = ForeignServer(given="s", name="s", reading=ServerReading(reason="no table"))
    (left_out,) = plan(attrs.evolve(file("one"), servers=(foreign,))).servers
    assert (left_out.action, left_out.reason) == ("skip", "no table")


def test_one_variable_holds_one_secret_whichever_server_has_it():
    env = [{"command": "x", "env": {"API_KEY": value}} for value in ("planted-1", "planted-2", "planted-1")]
    made = plan(file("one", a=env[0], b=env[1], c=env[2]))
    assert [secret.variable for secret in made.secrets] == ["API_KEY", "B_API_KEY"]
    assert made.tables(with_references=True)["c"] == {"command": "x", "env": {"API_KEY": "${API_KEY}"}}
    assert made.tables(with_references=False)["b"]["env"] == {"API_KEY": "planted-2"}


BILLING = {"command": "x", "env": {"API_TOKEN": "planted-1"}}
WEATHER = {"type": "http", "url": "https://w.example/mcp", "headers": {"X-Key": "${API_TOKEN}"}}


def test_a_secret_gets_no_name_that_another_server_refers_to():
    files = [file("one", billing=BILLING), file("two", weather=WEATHER)]
    for made in (plan(*files), plan(*reversed(files)), plan(files[0], configured={"weather": WEATHER})):
        assert [secret.variable for secret in made.secrets] == ["BILLING_API_TOKEN"]
    assert list(plan(*files).variables()) == ["API_TOKEN"]


def test_what_a_client_asks_for_gets_no_value_in_the_settings_that_is_another_servers():
    configured = {"billing": {"command": "x", "env": {"API_TOKEN": "${API_TOKEN}"}}}
    weather = file("two", weather=WEATHER)
    asking = attrs.evolve(weather.servers[0], inputs=frozenset({"API_TOKEN"}))
    asked = attrs.evolve(weather, servers=(asking,))
    made = plan(asked, configured=configured, settings={"API_TOKEN"})
    assert list(made.variables()) == ["WEATHER_API_TOKEN"]
    assert "so API_TOKEN is called WEATHER_API_TOKEN" in made.servers[0].problems[0].message
    there = {**configured, "weather": WEATHER}
    assert actions(plan(asked, configured=there, settings={"API_TOKEN"})) == ["same"]
    # Whoever names a variable in two servers means the same one.
    shared = plan(weather, configured=configured, settings={"API_TOKEN"})
    assert list(shared.variables()) == ["API_TOKEN"]


def test_the_variables_that_servers_need_are_named_without_those_that_have_a_default():
    table = {"command": "x", "args": ["${A}", "${B:-b}"], "env": {"TOKEN": "planted-1", "C": "${C}"}}
    assert list(plan(file("one", s=table)).variables()) == ["A", "C"]


HUB = {"command": "a", "env": {"API_TOKEN": "${API_TOKEN}"}}


def merged(tmp_path, name, text, client, tables):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return transfer_plans.merged(transfer_plans.plan_export(CLIENTS[client], tables), path)


def test_a_server_in_the_file_keeps_the_fields_that_are_its_clients_own(tmp_path):
    servers = {"a": {"command": "old", "args": ["x"], "trust": True}, "b": {"command": "b"}}
    text = json.dumps({"mcpServers": servers, "ui": 1})
    made = merged(tmp_path, "settings.json", text, "gemini-cli", {"a": HUB})
    assert json.loads(made.text) == {"mcpServers": {"a": {**HUB, "trust": True}, "b": servers["b"]}, "ui": 1}
    assert made.replaced == ("a",)
    assert not made.loses_comments


def test_inputs_are_defined_once_and_those_of_the_file_stay(tmp_path):
    text = '{"inputs": [{"id": "api-token", "type": "promptString", "description": "Mine"}], "servers": {}}'
    both = {"a": HUB, "b": {"command": "b", "args": ["${OTHER_KEY}"], "env": HUB["env"]}}
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
    document = json.loads(merged(tmp_path, "mcp.json", json.dumps(there), "vscode", {"a": HUB}).text)
    assert document["servers"]["a"]["env"] == {"API_TOKEN": "${input:a-api-token}"}
    document["servers"]["a"]["env"] = {"API_TOKEN": "${input:api-token}"}
    again = merged(tmp_path, "mcp.json", json.dumps(document), "vscode", {"a": HUB})
    assert json.loads(again.text)["servers"]["a"]["env"] == {"API_TOKEN": "${input:a-api-token}"}
    document = json.loads(again.text)
    document["inputs"][1]["description"] = "My token"
    again = merged(tmp_path, "mcp.json", json.dumps(document), "vscode", {"a": HUB})
    assert json.loads(again.text) == document


def test_comments_of_toml_stay(tmp_path):
    text = '# mine\nmodel = "x"\n\n[mcp_servers.b] # b\ncommand = "b"\n'
    made = merged(tmp_path, "config.toml", text, "codex", {"a": HUB, "b": {"command": "c"}})
    assert made.text.startswith('# mine\nmodel = "x"\n')
    assert 'env_vars = [\n    "API_TOKEN",\n]' in made.text
    assert made.loses_comments  # that of the replaced table
    assert not merged(tmp_path, "config.toml", text, "codex", {"a": HUB}).loses_comments


def test_comments_of_json_stay_but_those_in_a_replaced_server(tmp_path):
    made = merged(tmp_path, "s.json", '{// x\n"context_servers": {"b": 1}} // y', "zed", {"a": HUB})
    assert made.text.startswith('{// x\n"context_servers": {"b": 1,')
    assert made.text.endswith("} // y")
    assert not made.loses_comments
    text = '{"context_servers": {"a": {"command": "old" /* gone */}}} // y'
    made = merged(tmp_path, "s.json", text, "zed", {"a": HUB})
    assert made.text.endswith("} // y")
    assert made.loses_comments


def test_inputs_are_put_beside_the_servers_and_comments_of_yaml_alone_are_lost(tmp_path):
    made = merged(tmp_path, "mcp.json", '{"servers": {}, /* mine */}', "vscode", {"a": HUB})
    assert "/* mine */" in made.text
    assert '"id": "api-token"' in made.text
    made = merged(tmp_path, "settings.json", '{"mcp": {"servers": {}}}', "vscode", {"a": HUB})
    assert set(json.loads(made.text)["mcp"]) == {"servers", "inputs"}
    assert merged(tmp_path, "c.yaml", "a: 1 # x\n", "goose", {"a": HUB}).loses_comments


@pytest.mark.parametrize(
    ("name", "text", "client", "error"),
    [
        ("mcp.json", "{oops", "cursor", CorruptFile),
        ("mcp.json", "[1]", "cursor", PflowError),
        ("mcp.json", '{"mcpServers": []}', "cursor", PflowError),
        ("config.toml", "", "cursor", PflowError),
    ],
)
def test_a_file_of_another_shape_is_not_written_over(tmp_path, name, text, client, error):
    with pytest.raises(error):
        merged(tmp_path, name, text, client, {"a": HUB})


def test_a_disabled_server_is_left_out_where_that_cannot_be_said():
    table = {**HUB, "disabled": True}
    assert "disabled" in transfer_plans.plan_export(CLIENTS["cursor"], {"a": table}).servers[0].reason
    assert transfer_plans.plan_export(CLIENTS["zed"], {"a": table}).servers[0].table["enabled"] is False


def test_secrets_of_any_one_word_that_our_config_writes_out_are_named():
    table = {"command": "x", "args": ["--token=p@ss/w.rd!"], "env": {"API_KEY": "planted-2"}}
    [server] = transfer_plans.plan_export(CLIENTS["cursor"], {"a": table}).servers
    assert set(server.literals) == {"args[0]", "env.API_KEY"}


def moved(table, taken=()):
    changed, secrets = extracted("git-hub", table, lambda name, value: name in taken)
    return changed, {secret.variable: secret.value for secret in secrets}


AUTHORIZATION = {"GIT_HUB_AUTHORIZATION": "planted-1"}
PASSWORD = {"GIT_HUB_PASSWORD": "planted-1"}


@pytest.mark.parametrize(
    ("table", "secrets"),
    [
        ({"env": {"GITHUB_TOKEN": "<GITHUB_TOKEN>", "LEVEL": "info"}}, {"GITHUB_TOKEN": "ghp_planted"}),
        ({"env": {"API_KEY": "<API_KEY>"}}, {"API_KEY": "a${b}"}),
        ({"headers": {"Authorization": "Bearer <GIT_HUB_AUTHORIZATION>"}}, AUTHORIZATION),
        ({"auth": {"type": "basic", "username": "ada", "password": "<GIT_HUB_PASSWORD>"}}, PASSWORD),
        (
            {"args": ["-y", "--token=<GIT_HUB_TOKEN>", "--api-key", "<GIT_HUB_API_KEY>"]},
            {"GIT_HUB_TOKEN": "planted-1", "GIT_HUB_API_KEY": "planted-2"},
        ),
        ({"args": ["--header", "Authorization: Bearer <GIT_HUB_AUTHORIZATION>"]}, AUTHORIZATION),
        ({"args": ["postgresql://ada:<GIT_HUB_PASSWORD>@db/shop"]}, PASSWORD),
        (
            {"url": "https://x.example/mcp?team=blue&api_key=<GIT_HUB_API_KEY>&b=2"},
            {"GIT_HUB_API_KEY": "planted-1"},
        ),
        ({"headers": {"X-Key": "<GIT_HUB_X_KEY>"}}, {"GIT_HUB_X_KEY": "abcd"}),
    ],
)
def test_a_secret_is_replaced_by_a_reference(table, secrets):
    text = json.dumps(table)
    before, after = text, text
    for variable, secret in secrets.items():
        before = before.replace(f"<{variable}>", secret.replace("${", "$${"))
        after = after.replace(f"<{variable}>", f"${{{variable}}}")
    assert moved(json.loads(before)) == (json.loads(after), secrets)


@pytest.mark.parametrize(
    "table",
    [
        {"env": {"API_KEY": "${API_KEY}", "TOKEN_FILE": "/run/token", "MAX_TOKENS": "1000"}},
        {"headers": {"Authorization": "Bearer ${T}"}},
        {"args": ["--token", "${T}", "--key-file", "/run/key"]},
        {"env": {"API_KEY": ""}, "args": ["--token"]},
        {"headers": {"X-Key": "Bearer abc"}, "args": ["--token=abc"], "url": "https://h/?key=abc"},
        {"command": "x", "args": "not a list", "env": {"API_KEY": 7}},
    ],
)
def test_references_files_and_limits_are_no_secrets(table):
    assert moved(table) == (table, {})


def test_a_variable_that_has_another_value_is_not_used():
    table = {"env": {"API_KEY": "planted-1"}}
    assert moved(table, {"API_KEY"})[1] == {"GIT_HUB_API_KEY": "planted-1"}
    assert moved(table, {"API_KEY", "GIT_HUB_API_KEY"})[1] == {"GIT_HUB_API_KEY_2": "planted-1"}
    table = {"headers": {"X-API-Key": "planted-1"}, "url": "https://x.example/?x-api-key=planted-2"}
    assert set(moved(table)[1].values()) == {"planted-1", "planted-2"}
