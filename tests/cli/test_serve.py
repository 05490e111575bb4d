"""`pflow mcp serve`: its options, and what it refuses."""

import json
from functools import partial

import pytest

from pflow_mcp_plugin.cli.serve import _allowed_by_config

CLIENT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
LIST = "\n".join(
    [
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": CLIENT}),
        '{"jsonrpc": "2.0", "method": "notifications/initialized"}',
        '{"jsonrpc": "2.0", "id": 2, "method": "tools/list"}\n',
    ]
)


def listed(finished):
    """The names of the tools in the program's answer."""
    answers = [json.loads(line) for line in finished.stdout.splitlines()]
    return [tool["name"] for tool in answers[1]["result"]["tools"]]


@pytest.mark.parametrize("words", [("mcp", "serve"), ("serve", "mcp")])
def test_all_tools_are_served_and_nothing_else_is_printed(pflow, words):
    done = pflow(*words, stdin=LIST)
    assert done.exit_code == 0
    assert len(listed(done)) == 13
    assert done.stderr == ""


def test_tools_are_chosen_by_name_and_pattern_in_options_that_may_be_repeated(pflow):
    options = "--tools workflow_* trace_read --root . --tools registry_list --read-only"
    done = pflow("mcp", "serve", *options.split(), stdin=LIST)
    chosen = {"registry_list", "workflow_discover", "workflow_validate", "workflow_list", "trace_read"}
    assert set(listed(done)) == chosen


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--tools", "registry_lst"), "Did you mean registry_list?"),
        (("--tools", "nothing_*"), "There is no tool nothing_*"),
        (
            ("--tools", "registry_run", "registry_list", "--read-only"),
            "--read-only leaves no tool registry_run",
        ),
        (("--name", "mine"), "--name needs --install CLIENT or --print-config CLIENT"),
        (("--force",), "--force needs --install CLIENT"),
        (("--root", "not-there"), "is not a folder"),
        (("--http", "127.0.0.1:0", "--max-request-size", "1023"), "1023 is not in the range x>=1024"),
        (("--http", "127.0.0.1:0", "--reuse-port"), "processes on one address need the same"),
        (("--json",), "standard output belongs to the protocol"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_served(typed, arguments, words):
    done = typed("mcp", "serve", *arguments)
    assert done.exit_code == 2
    assert words in done.stderr + done.stdout


def test_secrets_are_shown_while_the_config_allows_it_and_can_be_read(desk):
    def allowed_by(text):
        desk.write(text)
        return allowed()

    allowed = partial(_allowed_by_config(desk), "show_secrets")
    assert not allowed()
    assert allowed_by("[serve]\nshow_secrets = true\n")
    assert not allowed_by("[serve]\nshow_secrets = false\n")
    assert not allowed_by("[serve\n")
    assert allowed_by("[serve]\nshow_secrets = true\n")


def test_a_config_that_says_something_else_than_true_or_false_is_refused(typed, pflow_home):
    folder = pflow_home / "config"
    folder.mkdir()
    (folder / "mcp-servers.toml").write_text('[serve]\nshow_secrets = "yes"\n', encoding="utf-8")
    done = typed("mcp", "serve")
    assert done.exit_code == 2
    assert "serve.show_secrets" in done.stderr
    assert done.stdout == ""
    checked = typed("config", "check")
    assert "serve.show_secrets" in checked.stderr + checked.stdout
