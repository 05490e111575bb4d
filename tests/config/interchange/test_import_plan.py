"""What an import would do."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from pflow_mcp_plugin.config import server_schema
from pflow_mcp_plugin.config.interchange import transfer_plans
from pflow_mcp_plugin.config.interchange.client_documents import FileContent, ForeignServer
from pflow_mcp_plugin.config.interchange.server_translation import ServerReading


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
        ({"s": {**A, "type": "stdio"}}, False, "same"),
        ({"s": B}, False, "skip"),
        ({"s": B}, True, "replace"),
        ({"s": A}, True, "same"),
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
