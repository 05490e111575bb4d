"""What the program imports, makes and reads on its way to a server, so that it starts fast."""

import json
from pathlib import Path

import pytest
from programs import script_server

pytestmark = pytest.mark.programs
HEAVY = (
    *("asyncio", "filelock", "jmespath", "importlib.metadata", "jsonschema", "mcp", "opentelemetry"),
    *("pflow_mcp_plugin.client.pool", "pflow_mcp_plugin.host.workflow", "pocketflow", "pydantic", "rich"),
    *("_hashlib", "tomli_w"),  # the first is OpenSSL
)
PRESETS = "pflow_mcp_plugin.presets.builtin_servers"
RUN = """
import sys
from pflow_mcp_plugin.__main__ import main
sys.argv = ["pflow", *sys.argv[1:]]
try:
    main()
finally:
    sys.stderr.write(" ".join(set({heavy}) & set(sys.modules)))
"""
COMPLETE = """
import sys
from pflow_mcp_plugin.host.cli.completion import complete
complete(["zsh", *sys.argv[1:]])
sys.stderr.write(" ".join(set({heavy}) & set(sys.modules)))
"""
COUNT = """
import sys
from attr import _make
made, build = [], _make._ClassBuilder.build_class
def note(builder):
    made.append(build(builder))
    return made[-1]
_make._ClassBuilder.build_class = note
from pflow_mcp_plugin.__main__ import main
sys.argv = ["pflow", *sys.argv[1:]]
main()
ours = [name for name in sys.modules if name.startswith("pflow_mcp_plugin")]
print(len(made), len(ours), [name for name in {unneeded} if name in sys.modules], file=sys.stderr)
"""
UNNEEDED = [
    *(f"pflow_mcp_plugin.trust.{name}" for name in ("tool_approval", "launch_identity", "pins")),
    *("base64", "locale", "pflow_mcp_plugin.contract.entries"),
]
"""Among them checks of approvals, which a list needs once the config is no longer that of the sync."""


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("echo --message x then ec", "echo"),
        ("trace show ", "latest"),
        ("mcp add file", "filesystem"),
        ("mcp test --", "--insecure"),
        ("mcp call ", ""),
    ],
)
def test_completion_imports_nothing_heavy(python, line, first):
    done = python("-c", COMPLETE.format(heavy=HEAVY), *line.split(" "))
    assert (done.exit_code, done.stderr) == (0, "")
    assert first in done.stdout.partition("\n")[0]


@pytest.mark.parametrize(
    "line", ["mcp list", "mcp presets", "registry list", "registry search file", "plugins", "--help"]
)
def test_listing_imports_nothing_heavy(python, line, odd):
    done = python("-c", RUN.format(heavy=HEAVY), *line.split())
    assert (done.exit_code, done.stderr) == (0, "")


def test_asking_who_is_signed_in_imports_nothing_that_talks_to_servers(python, pflow_home):
    table = '[mcpServers.web]\ntype = "http"\nurl = "https://example.com/mcp"\nauth = { type = "oauth" }\n'
    (pflow_home / "config").mkdir()
    (pflow_home / "config" / "mcp-servers.toml").write_text(table)
    talking = ("mcp", "httpx2", "jwt", "keyring", "asyncio", "pocketflow")
    done = python("-c", RUN.format(heavy=talking), "mcp", "auth", "--json")
    assert done.envelope["data"][0]["state"] == "needs_login"
    assert done.stderr == ""


def test_presets_are_loaded_only_when_they_are_asked_for(python):
    code = RUN.format(heavy=(PRESETS, "pflow_mcp_plugin.server_preset"))
    for command, loaded in (("list", 0), ("presets", 2)):
        assert len(python("-c", code, "mcp", command).stderr.split()) == loaded


LATE = (
    *("asyncio", "concurrent.futures", "difflib", "logging", "mcp"),
    *("pflow_mcp_plugin.client.connection", "pflow_mcp_plugin.schemas.argument_validation"),
    *("pflow_mcp_plugin.execution.result", "pflow_mcp_plugin.host.running.attempts"),
    *("pflow_mcp_plugin.host.running.batch", "pflow_mcp_plugin.host.running.flow"),
    *("pflow_mcp_plugin.host.workflow_library", "pflow_mcp_plugin.processes.missing_programs"),
    *("pocketflow", "shutil"),
)
"""What a run imports while its servers start, or only after a failure."""
UNUSED = (
    *("pflow_mcp_plugin.client.transport.http_requests", "pflow_mcp_plugin.discovery.lock_file"),
    *("pflow_mcp_plugin.trust.pins", "pflow_mcp_plugin.host.running.batch"),
    *("pflow_mcp_plugin.host.workflow_library", "pflow_mcp_plugin.processes.missing_programs"),
    *("pflow_mcp_plugin.trust.tool_difference", "httpx2", "mcp.server", "starlette"),
)
"""What a run of single calls on a stdio server, without a failure, does not import at all."""
STARTS = """
import sys
started = []
def note(event, _arguments):
    if event == "subprocess.Popen":
        started.append(set({late}) & set(sys.modules))
sys.addaudithook(note)
from pflow_mcp_plugin.__main__ import main
sys.argv = ["pflow", *sys.argv[1:]]
code = main()
from pflow_mcp_plugin.execution import failure_actions
found = [*map(sorted, started), sorted(set({unused}) & set(sys.modules))]
print(code, len(started), sum(found, []), failure_actions._any_of.cache_info().currsize, file=sys.stderr)
"""


@pytest.fixture
def odd(pflow):
    """Configure and sync a server."""
    table = script_server(Path(__file__).parent / "faults" / "stdio_server.py", "Plain")
    assert pflow("mcp", "add", json.dumps({"odd": table}), "--sync").exit_code == 0


@pytest.fixture
def two_calls(tmp_path):
    """A workflow of two calls of that server."""
    path = tmp_path / "calls.json"
    path.write_text(json.dumps({"nodes": [{"id": name, "type": "mcp-odd-act"} for name in "ab"]}))
    return path


@pytest.mark.parametrize(("command", "most"), [("mcp list", 47), ("registry list", 42)])
def test_a_list_loads_few_modules_and_makes_few_attrs_classes(odd, python, command, most):
    done = python("-c", COUNT.format(unneeded=UNNEEDED), *command.split())
    classes, modules, unneeded = done.stderr.split()
    assert "odd" in done.stdout
    assert 0 < int(classes) <= 10  # each takes half a millisecond
    assert 0 < int(modules) <= most
    assert unneeded == "[]"


def test_a_run_starts_its_server_before_it_imports_what_only_calls_and_failures_need(odd, python, two_calls):
    done = python("-c", STARTS.format(late=LATE, unused=UNUSED), "run", two_calls)
    # The reaper and the server are started with none of it; no pattern for failures is compiled.
    assert (done.stdout, done.stderr) == ("done\n", "0 2 [] 0\n")


OPENED = """
import json, os, sys
from collections import Counter

home, opened = os.environ["PFLOW_HOME"], Counter()

def note(event, args):
    if event == "open" and isinstance(args[0], str | os.PathLike) and str(args[0]).startswith(home):
        opened[os.path.basename(args[0])] += 1

sys.addaudithook(note)
from pflow_mcp_plugin.__main__ import main
sys.argv = ["pflow", *sys.argv[1:]]
assert main() == 0
sys.stderr.write(json.dumps(opened))
"""


def test_a_run_reads_the_config_and_each_tool_file_once(odd, python, two_calls):
    opened = json.loads(python("-c", OPENED, "run", two_calls).stderr)
    assert (opened["mcp-servers.toml"], opened["odd.json"]) == (1, 1)


ASKED_LATER = """
import sys
from pflow_mcp_plugin.client.background_loop import background_loop
loop = background_loop.acquire()
while not loop.serving:
    pass
assert "mcp.client.session" in sys.modules and "mcp.server" not in sys.modules
import mcp
from mcp import Client
from mcp.client import ClientSession
assert mcp.ClientSession is ClientSession and "mcp.server" in sys.modules
assert [name for name in mcp.__all__ if not hasattr(mcp, name)] == []
try:
    mcp.nothing
except AttributeError as error:
    print(error)
background_loop.release()
"""


def test_whoever_imports_the_sdk_later_finds_all_of_it(python):
    done = python("-c", ASKED_LATER)
    assert (done.stdout, done.stderr) == ("module 'mcp' has no attribute 'nothing'\n", "")
