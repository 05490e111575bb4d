from types import SimpleNamespace

import click
import pytest

from pflow_mcp_plugin.cli import command_arguments
from pflow_mcp_plugin.cli.call import call
from pflow_mcp_plugin.host.cli.completion import complete
from pflow_mcp_plugin.types import Tool


@pytest.fixture
def context(desk):
    desk.write(
        '[mcpServers.clock]\ncommand = "python"\n'
        '[mcpServers.files]\ncommand = "python"\ntools = {deny = ["rm"]}\n'
    )
    desk.store("files", *(Tool(name=name) for name in ("read_all", 'read\n"it"', "rm", "größe")))
    desk.store("gone", Tool(name="rm"))
    return click.Context(click.Command("x"), obj=desk)


def answered(capsys, *words):
    assert complete(["zsh", *words]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return [line.split("\t")[1] for line in out.splitlines()]


def values(found):
    return [getattr(it, "value", it) for it in found]


def test_servers_are_those_of_the_config_and_those_with_tools(context, desk):
    assert command_arguments.servers(context, None, "") == ["clock", "files", "gone"]
    desk.write("not [valid")
    assert command_arguments.servers(context, None, "") == ["files", "gone"]


def test_tools_are_those_that_can_be_called(desk, context):
    assert values(call.complete_words([], "", obj=desk)) == ["clock", "files"]
    assert values(call.complete_words(["files"], "", obj=desk)) == ["read_all", 'read\n"it"', "größe"]
    assert values(call.complete_words(["files"], "gr", obj=desk)) == ["größe"]
    assert values(call.complete_words(["files"], 'read\n"', obj=desk)) == ['read\n"it"']
    for words in (["clock"], ["absent"], ["files", "rm"], ["files", "absent"]):
        assert values(call.complete_words(words, "", obj=desk)) == []
    path = desk.paths.data / "servers" / "files.json"  # which is read whole without its index
    path.write_bytes(path.read_bytes().replace(b'"size": ', b'"size": 1'))
    assert values(call.complete_words(["files"], "read_", obj=desk)) == ["read_all"]


def test_workflows_are_those_of_the_library_or_any_file(context, desk):
    found = command_arguments.workflows_and_files(context, None, "fl")
    assert [(item.value, item.type) for item in found] == [("fl", "file")]
    desk.library = SimpleNamespace(names=lambda: ["one", "two"])
    found = command_arguments.workflows_and_files(context, None, "fl")
    assert values(found) == ["one", "two", "fl"]


def test_presets_and_clients_are_completed_by_name(context):
    assert "filesystem" in values(command_arguments.presets(context, None, ""))
    assert "cursor" in values(command_arguments.clients(context, None, ""))
    assert command_arguments.words_of_add(context, None, "x")[-1].type == "file"
    context.params["words"] = ("show",)
    assert "github" in values(command_arguments.words_of_presets(context, None, ""))
    assert [it.type for it in command_arguments.words_of_add(context, None, "")] == ["file"]


def test_with_a_corrupt_config_the_rest_is_completed_and_nothing_is_said(pflow_home, capsys):
    (pflow_home / "config").mkdir()
    (pflow_home / "config" / "mcp-servers.toml").write_bytes(b"\xff not [valid")
    assert answered(capsys, "mcp", "sync", "--a") == ["--all"]
    assert answered(capsys, "mcp", "add", "--type=ht") == ["--type=http"]
    assert answered(capsys, "ec") == ["echo"]
    assert answered(capsys, "registry", "ref") == []  # hidden
    for words in (["sync", ""], ["call", "x", ""], ["x"], ["info", ""], ["export", ""]):
        answered(capsys, "mcp", *words)


def test_a_projects_servers_are_completed_where_its_option_is_typed(
    pflow_home, tmp_path, monkeypatch, capsys
):
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"say": {"command": "say"}}}')
    monkeypatch.chdir(tmp_path)
    assert answered(capsys, "mcp", "test", "") == []
    for words in (["--project", "mcp", "test"], ["mcp", "--project", "test"], ["mcp", "test", "--project"]):
        assert answered(capsys, *words, "") == ["say"]


def test_the_options_of_a_call_are_completed_before_its_server(desk):
    assert values(call.complete_words([], "--st", obj=desk)) == ["--stdio", "--startup-timeout"]
    assert values(call.complete_words(["--stdio", "x"], "", obj=desk)) == []
