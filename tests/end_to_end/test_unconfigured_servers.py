"""Calls of servers that were never added, by `--stdio COMMAND` or a URL."""

import shlex
import sys
from pathlib import Path

import pytest
from http_server import FaultServer, Reply, Request

pytestmark = pytest.mark.usefixtures("no_leftovers")
DEMO = shlex.join([sys.executable, "-m", "pflow_mcp_plugin.server.demo_server"])


@pytest.fixture
def call(pflow):
    """Call a tool of the demo server, which is not configured."""
    return lambda *words: pflow("mcp", "call", "--stdio", DEMO, *words)


def test_a_command_is_enough_to_call_a_tool_and_only_the_trace_remains(pflow, pflow_home, tmp_path):
    counted = f"sh -c {shlex.quote(f'echo >> {tmp_path}/starts; exec {DEMO}')}"
    done = pflow("mcp", "call", "--stdio", counted, "add", "a=1", "b=2", "then", "echo")
    assert (done.exit_code, done.stdout) == (0, "3\n")
    (line,) = done.stderr.splitlines()
    assert line.startswith("Used for this call only: sh -c ")
    assert (
        f"To keep it: pflow mcp add NAME -- sh -c {shlex.quote(f'echo >> {tmp_path}/starts;')[:-1]}" in line
    )
    assert (tmp_path / "starts").read_text() == "\n"  # the call uses the connection that listed the tools
    kept = {path.relative_to(pflow_home).parts[:2] for path in pflow_home.rglob("*") if path.is_file()}
    assert {folder for folder, *_ in kept} == {"state"}
    assert ("state", "traces") in kept
    assert "ad-hoc" not in pflow("registry", "list").stdout


def test_a_call_of_unknown_outcome_names_no_resume_as_no_later_run_has_the_server(pflow, pflow_home):
    scripted = Path(__file__).parents[1] / "client" / "scripted.py"
    ends = shlex.join([sys.executable, str(scripted), "os._exit(3)"])
    failed = pflow("mcp", "call", "--stdio", ends, "act", "then", "echo")
    assert (failed.exit_code, "check what it had done" in failed.stderr) == (1, True)
    assert "pflow resume" not in failed.stderr
    assert not list(pflow_home.rglob("*.db"))


def test_a_url_is_enough_to_call_a_tool(everything_http, pflow, pflow_home):
    done = pflow("mcp", everything_http, "get-sum", "a=1", "b=2")
    assert (done.exit_code, done.stdout) == (0, "The sum of 1 and 2 is 3.\n")
    assert done.stderr == (
        f"Used for this call only: {everything_http}. To keep it: pflow mcp add NAME {everything_http}\n"
    )
    assert not (pflow_home / "config").exists()
    assert not (pflow_home / "data").exists()


def test_what_is_told_of_such_a_server_can_be_typed(call):
    again = f"pflow mcp call --stdio {shlex.quote(DEMO)}"
    assert f"\n  -> Did you mean {again} word_count?\n" in call("word_cnt").stderr
    assert f"\nExample: {again} add --a 10 --b 10\n" in call("add", "--help").stdout
    refused = call("add", "a=1", "b=2", "--save", "sum")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "--save: a workflow cannot use a server that is not configured" in refused.stderr


def test_a_url_that_wants_a_token_is_called_with_one(pflow):
    async def demand(_: Request, reply: Reply) -> bool:
        await reply.status(401)
        return True

    with FaultServer(demand) as server:
        refused = pflow("mcp", "call", server.url(), "add")
    assert refused.exit_code == 3
    assert "write --bearer '${TOKEN}' before the URL" in refused.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["http://example.org/mcp", "add"], 2, "-> Use https, or write --insecure before the URL"),
        (["--bearer", "${ABSENT}", "https://example.org/mcp", "add"], 2, "variable ABSENT is not set"),
        (["--bearer", "x", "demo", "add"], 2, "A configured server takes no such options"),
        (["--stdio", "nosuchprogram", "add"], 3, "Command not found: nosuchprogram"),
        (["--stdio", "'", "add"], 2, "--stdio: No closing quotation"),
    ],
)
def test_the_rules_of_added_servers_hold(pflow, words, code, said):
    done = pflow("mcp", "call", *words)
    assert (done.exit_code, done.stdout) == (code, "")
    assert said in done.stderr


def test_denied_hosts_are_denied_and_secrets_on_the_line_are_not_repeated(pflow, pflow_home):
    config = pflow_home / "config" / "mcp-servers.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[network]\ndeny = ["example.org"]\n')
    done = pflow("mcp", "call", "https://example.org/mcp?token=planted-in-the-url-0123456789", "add")
    assert (done.exit_code, done.stdout) == (2, "")
    assert (
        'host example.org is denied by deny = ["example.org"] in [network]; nothing was sent' in done.stderr
    )
    assert "planted" not in done.stderr
    assert config.read_text() == '[network]\ndeny = ["example.org"]\n'
