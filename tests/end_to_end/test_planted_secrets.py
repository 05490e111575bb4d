"""Secrets planted in a server that repeats them, looked for in everything that pflow prints or writes."""

import json
import re
import stat
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from planted_secrets import remains
from programs import script_server
from screen import Screen

pytestmark = pytest.mark.usefixtures("no_leftovers")
ECHOING = Path(__file__).with_name("echoing_server.py")
PLAIN = "Zq7xK2mP9wL4vB8nT3cR6yH1jF5dG0sA7eU2iO9p"
SPECIAL = "Zq7x/2m\"9w+4vB 8n'3cR&yH1\\F5=G0%A7eü2i@9p"
both = pytest.mark.parametrize("secret", [PLAIN, SPECIAL], ids=["plain", "special"])


@pytest.fixture
def echoing(pflow):
    """Add the echoing server and sync it."""

    def add(secret, *args, **env):
        table = script_server(ECHOING, *args, env={"TOKEN": "${TOKEN}", **env})
        added = pflow("mcp", "add", json.dumps({"echo": table}), env={"TOKEN": secret})
        synced = pflow("mcp", "sync", "echo", env={"TOKEN": secret})
        assert added.exit_code == synced.exit_code == 0, synced.stderr
        return [added.stdout, added.stderr, synced.stdout, synced.stderr]

    return add


@pytest.fixture
def played(pflow, workflow, pflow_home, tmp_path):
    """Run tools in one workflow, whatever becomes of them, and return all that was printed."""

    def play(secret, *calls, json_too=True):
        nodes = [(f"n{at}", f"mcp-echo-{tool}", params) for at, (tool, params) in enumerate(calls)]
        nodes.append(("last", "echo", {"message": "done"}))
        edges = [
            {"from": before[0], "to": after[0], **action}
            for before, after in pairwise(nodes)
            for action in ({}, {"action": "error"})
        ]
        routed = workflow(*nodes, edges=edges, outputs={"done": "${last.message}"})
        printed = []
        for arguments in ([routed, "--json"], [routed]) if json_too else ([routed],):
            ran = pflow("run", *arguments, env={"TOKEN": secret})
            printed += [ran.stdout, ran.stderr]
        for arguments in (("show",), ("show", "--json"), ("list",), ("view", "--output", "page.html")):
            finished = pflow("trace", *arguments)
            assert finished.exit_code == 0
            printed += [finished.stdout, finished.stderr]
        return [*printed, (tmp_path / "page.html").read_text()]

    return play


def _failing(pflow, workflow, secret, tool, **params):
    """Run one tool whose failure ends the run; return what was printed."""
    ran = pflow("run", workflow(("n", f"mcp-echo-{tool}", params)), "--json", env={"TOKEN": secret})
    assert ran.exit_code, ran.stdout
    page = pflow("trace", "view", "--output", "page.html")
    return [ran.stdout, ran.stderr, page.stdout]


def _printed(pflow, secret, *lines, exit_code=0):
    """Run command lines, which all end with this exit code; return what was printed."""
    ran = [pflow(*line.split(), env={"TOKEN": secret}) for line in lines]
    assert {done.exit_code for done in ran} == {exit_code}, [done.stderr for done in ran]
    return [text for done in ran for text in (done.stdout, done.stderr)]


@both
def test_row_37_no_secret_is_left_where_an_error_is_cut(echoing, played, pflow_home, secret, tmp_path):
    echoing(secret)
    numbers = [*range(4000 - len(secret) - 2, 4002, 3)]
    calls = [("fail", {"number": number}) for number in numbers]
    calls += [("rpc", {"number": number}) for number in numbers[::3]]
    printed = played(secret, *calls)
    assert "characters in all)" in printed[6]
    assert remains(secret, printed, pflow_home) == []


def test_row_37_no_secret_is_left_that_is_split_over_content_blocks(echoing, played, pflow_home):
    echoing(SPECIAL)
    calls = [
        ("blocks", {"number": number, "failed": failed})
        for failed in (False, True)
        for number in range(2, len(SPECIAL), 3)
    ]
    printed = played(SPECIAL, *calls)
    assert "***" in printed[4]
    assert remains(SPECIAL, printed, pflow_home) == []


def test_row_37_no_secret_is_left_at_the_seam_of_stderr(echoing, pflow, workflow, pflow_home):
    echoing(PLAIN)
    # of the 64 KiB that are kept, the first bytes are the last ones of the secret
    printed = _failing(pflow, workflow, PLAIN, "stderr", number=15)
    assert "+++" in printed[0]
    files = list((pflow_home / "state" / "stderr").rglob("*.log"))
    assert [stat.S_IMODE(path.stat().st_mode) for path in files] == [0o600]
    assert remains(PLAIN, printed, pflow_home) == []


@both
def test_row_37_no_form_of_a_secret_is_left_in_an_error(
    echoing, pflow, workflow, pflow_home, secret, tmp_path
):
    echoing(secret)
    for tool, params in (("forms", {}), ("garbage", {"number": 25}), ("rpc", {"number": 3990})):
        printed = _failing(pflow, workflow, secret, tool, **params)
        assert "***" in printed[0]
        page = (tmp_path / "page.html").read_text()
        assert remains(secret, [*printed, page], pflow_home) == []


def test_row_37_no_secret_is_left_in_what_a_server_asks_and_reports(echoing, played, pflow_home):
    echoing(SPECIAL)
    calls = [("progress", {"number": number}) for number in range(20, 60, 7)]
    printed = played(SPECIAL, ("ask", {}), ("mime", {}), *calls)
    assert "declined" in printed[1]
    assert "which stays as it is in the result" in printed[1]
    assert remains(SPECIAL, printed, pflow_home) == []


def test_row_37_no_secret_is_shown_in_the_progress_on_a_terminal(echoing, pflow_home, workflow, hosts):
    echoing(PLAIN)
    path = workflow(*((f"n{number}", "mcp-echo-progress", {"number": number}) for number in (0, 20, 40)))
    screen = Screen(["run", "--verbose", str(path)], pflow_home, env={"TOKEN": PLAIN, "NO_COLOR": "1"})
    hosts.append(screen.program.pid)
    assert screen.end() == 0
    lines = "\n".join(screen.lines)
    assert re.search(r"^✓ start\s+\S+ m?s  server echo$", lines, re.MULTILINE)
    assert re.search(r"^  n0\s+1, \*\*\*$", lines, re.MULTILINE), lines
    assert remains(PLAIN, [screen.shown], pflow_home) == []


def test_row_37_no_secret_is_left_of_what_a_server_says_of_itself_and_its_tools(
    echoing, pflow, pflow_home, tmp_path
):
    printed = echoing(SPECIAL, ECHO="yes")
    text = printed[2]
    assert "what it says about itself contains a secret of its config, which is redacted" in text
    assert "what it says about fail, blocks, forms, rpc, garbage and 5 more contains a secret" in text
    assert "use_*** skipped: its name contains a secret of the server's config" in text
    assert "argument skipped: the name of an argument contains a secret" in text
    printed += _printed(
        pflow,
        SPECIAL,
        "mcp sync echo --json",
        *("mcp test echo", "mcp test echo --json", "mcp list --json", "mcp tools --json"),
        *("mcp info mcp-echo-fail", "mcp info mcp-echo-fail --json", "mcp stubs --output stubs"),
        *("registry search token", "registry describe mcp-echo-fail --json", "registry export"),
    )
    assert json.loads(printed[4])["data"][0]["changes"] == {"added": [], "removed": [], "changed": []}
    assert len(list((pflow_home / "data" / "servers").rglob("echo.json"))) == 1
    assert remains(SPECIAL, printed, pflow_home, tmp_path) == []


def test_ordinary_words_of_a_config_do_not_redact_what_a_server_says(pflow, echoing):
    echoing("rpc")
    assert "mcp-echo-rpc" in pflow("mcp", "tools").stdout


def test_row_37_a_positional_secret_is_neither_printed_nor_left_in_a_run(pflow, workflow, pflow_home):
    token = f"ghp_{PLAIN[:36]}"
    script = "import os, sys; os.environ['TOKEN'] = sys.argv[2]; os.execv(sys.executable, sys.argv[:2])"
    arguments = ["-c", script.replace("sys.argv[:2]", "[sys.executable, sys.argv[1]]"), str(ECHOING), token]
    added = pflow("mcp", "add", "echo", "--", sys.executable, *arguments)
    assert "'${GITHUB_TOKEN}'" in added.stderr
    lines = ("mcp sync", "mcp list", "mcp list --json", "mcp test echo --json")
    printed = [added.stdout, added.stderr, *_printed(pflow, token, *lines)]
    for tool in ("forms", "fail"):
        printed += _failing(pflow, workflow, token, tool)
    (pflow_home / "config" / "mcp-servers.toml").unlink()  # which the user told to hold it
    assert remains(token, printed, pflow_home) == []


def test_row_37_no_secret_is_left_in_a_lock_file_or_in_what_is_said_of_differences(
    echoing, pflow, workflow, pflow_home, tmp_path
):
    token = f"ghp_{PLAIN[:36]}"
    # What may be code, such as the special one, is shown to whoever approves it.
    default = f"${{API_KEY:-{PLAIN}}}"
    planted = [f"--token={PLAIN}", "--key", PLAIN, default, f"x={default}", token]
    printed = echoing(SPECIAL, *planted, ECHO="yes", LITERAL=PLAIN)
    config = pflow_home / "config" / "mcp-servers.toml"
    workflow(("n", "mcp-echo-fail", {}))
    printed += _printed(
        pflow,
        SPECIAL,
        *("mcp list", "mcp lock", "mcp lock --check", "mcp lock by-workflow.toml --workflow wf.json --json"),
        *("validate wf.json --locked", "mcp sync --locked"),
    )
    config.write_text(
        config.read_text().replace("--key", "--api-key").replace("/echo", "/../end_to_end/echo")
    )
    for line in ("run wf.json --locked", "mcp sync --locked", "mcp lock --check --json"):
        told = _printed(pflow, SPECIAL, line, exit_code=2)
        assert "args[" in "".join(told)
        printed += told
    config.unlink()  # which the user told to hold them
    for secret in (SPECIAL, PLAIN, token):
        assert remains(secret, printed, pflow_home, tmp_path) == []


def test_row_37_an_artefact_holds_a_result_whole_and_only_its_owner_can_read_it(echoing, played, pflow_home):
    echoing(PLAIN)
    printed = played(PLAIN, ("large", {}), json_too=False)
    (artefact,) = (path for path in (pflow_home / "state" / "artifacts").rglob("*") if path.is_file())
    assert artefact.read_text().startswith(PLAIN)
    assert stat.S_IMODE(artefact.stat().st_mode) == 0o600
    assert stat.S_IMODE(artefact.parent.stat().st_mode) == 0o700
    artefact.unlink()
    assert remains(PLAIN, printed, pflow_home) == []


def test_what_a_command_prints_is_redacted_wherever_a_server_repeats_it(pflow, tmp_path):
    marks = tmp_path / "marks"
    (tmp_path / "secret.py").write_text(f"open({str(marks)!r}, 'a').write('x'); print('planted-4711')")
    (tmp_path / "server.py").write_text("import sys; sys.exit('no door ' + sys.argv[1])")
    pflow("settings", "set", "DOOR", "--from-command", f"{sys.executable} {tmp_path / 'secret.py'}")
    pflow("mcp", "add", "house", "--", sys.executable, tmp_path / "server.py", "${DOOR}")
    assert not marks.exists()
    done = pflow("mcp", "sync", "house", "--json")
    assert (done.exit_code, "no door ***" in done.stdout) == (3, True)
    assert "planted" not in done.stdout + done.stderr
    assert marks.read_text() == "x"
