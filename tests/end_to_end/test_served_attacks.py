"""The threats that concern a served pflow, each played under its number against the program itself.

`tests/data/threat_rows.py` says which tests play which row.
"""

import asyncio
import http.client
import json
import os
import stat
import subprocess
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from planted_secrets import remains
from programs import importing, put_plugin, script_server
from served_pflow import TOKEN, serving

pytestmark = pytest.mark.usefixtures("no_leftovers")
over_both = pytest.mark.parametrize("transport", ["stdio", "http"])
SECRET = "Zq7xK2mP9wL4vB8nT3cR6yH1jF5dG0sA7eU2iO9p"
MARK = "MARK-of-a-file-outside"
HOSTILE = Path(__file__).with_name("hostile_tools.py")
BOUND = 20
"""Seconds that any of these calls may take."""
LARGEST = 1 << 20
"""Characters of the largest answer."""


@pytest.fixture
def hostile(configured, pflow):
    """The hostile server, added and synced; it gets a secret of the settings."""
    assert pflow("settings", "set", "API_TOKEN", SECRET).exit_code == 0
    configured("hostile", script_server(HOSTILE, env={"TOKEN": "${API_TOKEN}"}))


@pytest.fixture
def folder(tmp_path):
    """The working folder of the program, which is its root over stdio."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def play(asked):
    """Serve pflow, make the calls one after the other, and return the results."""

    def play(*calls, transport="stdio", **options):
        async def make(client):
            return [await timed(client, tool, arguments) for tool, arguments in calls]

        return asked(transport, make, **options)

    return play


@pytest.fixture
def asked(pflow_home, folder):
    """Serve pflow, and return what a conversation with it returns."""

    def ask(transport, conversation, *, options=(), env=None):
        async def session():
            with serving(transport, pflow_home, folder, *options, env=env) as served:
                async with served.client() as client:
                    return await conversation(client)

        return asyncio.run(session())

    return ask


async def timed(client, tool, arguments):
    begin = time.monotonic()
    result = await client.call_tool(tool, arguments)
    assert time.monotonic() - begin < BOUND, (tool, str(arguments)[:200])
    assert len(result.content[0].text) < LARGEST, tool
    return result.structured_content or json.loads(result.content[0].text)


def node(tool, **parameters):
    """Return a call of `registry_run` for a tool of the hostile server."""
    return ("registry_run", {"node_type": f"mcp-hostile-{tool}", "parameters": parameters})


def test_row_09_what_a_tool_returns_is_never_evaluated(hostile, play, folder):
    workflow = {
        "nodes": [
            {"id": "say", "type": "echo", "params": {"message": "evaluated"}},
            {"id": "bad", "type": "mcp-hostile-templates"},
            {"id": "copy", "type": "echo", "params": {"message": "${bad.result}"}},
        ],
        "outputs": {"copied": {"source": "${copy.message}"}},
    }
    echoed = {"node_type": "echo", "parameters": {"message": "${API_TOKEN} $(touch PWNED)"}}
    alone, chained, given = play(
        node("templates"), ("workflow_execute", {"workflow": workflow}), ("registry_run", echoed)
    )
    for text in (alone["data"]["outputs"]["result"], chained["data"]["outputs"]["copied"]):
        assert text.startswith("${HOME} ${say.message} $(touch PWNED)")
    assert given["data"]["outputs"]["message"] == "${API_TOKEN} $(touch PWNED)"
    assert list(folder.rglob("PWNED")) == []


def test_row_10_a_link_to_a_file_is_data_and_nobody_reads_it(hostile, play, folder):
    (folder / "private.txt").write_text(MARK)
    (linked,) = play(node("links", path=str(folder / "private.txt")))
    link, embedded = linked["data"]["outputs"]["result"]
    assert link["uri"] == embedded["uri"] == f"file://{folder / 'private.txt'}"
    assert embedded["text"] == "embedded"
    assert MARK not in json.dumps(linked)


def test_row_11_results_beyond_all_limits_are_cut_or_refused(hostile, play):
    huge, nested, digits, after = play(node("huge"), node("nested"), node("digits"), node("templates"))
    beginning, _, file = huge["data"]["outputs"]["result"].partition(" characters), whole in ")
    assert beginning.endswith("... (8,388,608")
    assert Path(file).stat().st_size == 8 << 20
    assert not nested["success"]
    assert not digits["success"]
    assert after["success"]


def test_row_12_requests_of_a_server_during_a_call_are_declined(hostile, play):
    (asked,) = play(node("asks"))
    sampling, roots, elicitation = asked["data"]["outputs"]["result"]
    assert "declined" in sampling["error"]["message"]
    assert roots["result"] == {"roots": []}
    assert elicitation["result"] == {"action": "decline"}


def test_row_13_a_form_that_asks_for_a_secret_is_declined_and_nothing_is_filled_in(hostile, play):
    (asked,) = play(node("asks-for-a-secret"))
    form, link = asked["data"]["outputs"]["result"]
    assert form["result"] == link["result"] == {"action": "decline"}


@over_both
def test_row_25_no_command_line_holds_a_secret(transport, hostile, play, tmp_path, new_interpreter):
    seen = tmp_path / "seen"
    play(node("command-lines", path=str(seen)), transport=transport)
    every = seen.read_text().splitlines()
    # Clients of other tests may have the token in their own command lines.
    lines = "\n".join(line for line in every if "pflow_mcp_plugin" in line or "hostile_tools.py" in line)
    assert "hostile_tools.py" in lines
    assert "mcp serve" in lines
    assert SECRET[:12] not in lines
    assert TOKEN not in lines


def request(url, headers, method="POST"):
    """Send a request as it is; return its status and body."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=BOUND)
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    usual = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2025-11-25",
    }
    try:
        connection.request(method, parts.path, json.dumps(message), {**usual, **headers})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_row_26_a_web_page_is_refused_and_so_is_whoever_has_no_token(pflow_home, folder):
    token = {"Authorization": f"Bearer {TOKEN}"}
    with serving("http", pflow_home, folder) as served:
        status, body = request(served.url, token)
        assert (status, "settings_get" in body) == (200, True)
        for headers, expected in (
            ({}, 401),
            ({"Authorization": f"Bearer {TOKEN}x"}, 401),
            ({"Authorization": f"Basic {TOKEN}"}, 401),
            ({**token, "Host": "evil.example"}, 421),
            ({"Host": "evil.example"}, 421),
            ({"Host": "127.0.0.1:80/evil"}, 421),
            ({**token, "Origin": "https://evil.example"}, 403),
        ):
            status, body = request(served.url, headers)
            assert status == expected, headers
            assert "settings_get" not in body
            assert TOKEN not in body


def test_row_27_other_users_find_no_way_in(pflow_home, folder, tmp_path):
    """No local socket; a port on loopback only; a token that others may read is warned about."""
    with serving("http", pflow_home, folder) as served:
        port = f"{urlsplit(served.url).port:04X}"
        listening = {
            line.split()[1]
            for table in ("tcp", "tcp6")
            for line in Path(f"/proc/net/{table}").read_text(encoding="ascii").splitlines()[1:]
            if line.split()[3] == "0A" and line.split()[1].endswith(f":{port}")
        }
        assert listening == {f"0100007F:{port}"}
        assert unix_sockets(served.process) == set()
        assert request(served.url, {})[0] == 401
    loose = tmp_path / "loose-token"
    loose.write_text(TOKEN, encoding="utf-8")
    loose.chmod(0o644)
    with serving("http", pflow_home, folder, token_file=loose) as served:
        assert "chmod 600" in served.log.read_text(encoding="utf-8")


def unix_sockets(process):
    """Return the names of the Unix sockets that a process listens on."""
    named = {
        line.split()[6]: line.split()[7]
        for line in Path("/proc/net/unix").read_text().splitlines()[1:]
        if len(line.split()) > 7
    }
    open_files = (str(link.readlink()) for link in Path(f"/proc/{process}/fd").iterdir() if link.is_symlink())
    inodes = (name[8:-1] for name in open_files if name.startswith("socket:["))
    return {named[inode] for inode in inodes if inode in named}


@pytest.fixture
def traps(folder, tmp_path):
    """Paths that lead out of the working folder, or are not files; each holds the mark if it can."""
    outside = tmp_path / "outside.json"
    outside.write_text(json.dumps({"nodes": [{"id": "x", "type": "echo", "params": {"message": MARK}}]}))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/inner.json").write_bytes(outside.read_bytes())
    (folder / "link.json").symlink_to(outside)
    (folder / "links").symlink_to(tmp_path / "elsewhere")
    (folder / "deep").mkdir()
    os.mkfifo(folder / "fifo.json")
    wide_dot = "\N{FULLWIDTH FULL STOP}"
    return [
        *("../outside.json", "./deep/../../outside.json", "deep/../link.json", "..\\outside.json"),
        *(str(outside), f"file://{outside}", "link.json", "links/inner.json", "fifo.json", "deep", ".", ".."),
        *("/dev/zero", "/dev/stdin", "/proc/self/environ", "/etc/passwd", "~/outside.json"),
        *("%2e%2e/outside.json", "..%2foutside.json", "CON", "nul.json", "outside.json\0.json"),
        *("a" * 5000 + ".json", f"{wide_dot}{wide_dot}/outside.json"),
    ]


def asked_about(path):
    """Yield a call for each argument that could be taken for a path."""
    yield "workflow_execute", {"workflow": path}
    yield "workflow_validate", {"workflow": path}
    yield "workflow_save", {"workflow_file": path, "name": "stolen", "description": "x"}
    yield "workflow_save", {"workflow_file": '{"nodes": []}', "name": path, "description": "x"}
    yield "trace_read", {"trace_file": path}
    yield "registry_run", {"node_type": path}
    yield "registry_describe", {"nodes": [path]}
    yield "settings_get", {"key": path}


@over_both
def test_row_30_no_string_is_a_way_out_of_the_folder(transport, traps, play, pflow_home, tmp_path):
    before = files_outside(tmp_path, pflow_home)
    cases = [case for path in traps for case in asked_about(path)]
    answers = play(*cases, transport=transport)
    for (tool, arguments), answer in zip(cases, answers, strict=True):
        assert not answer["success"], (tool, arguments)
        told = json.dumps(answer)
        assert MARK not in told, (tool, arguments)
        assert "root:x:" not in told, (tool, arguments)
    assert files_outside(tmp_path, pflow_home) == before


def files_outside(folder, home):
    """Return every file below a folder that is not in the home, or written by the tests themselves."""
    own = {"token-of-the-tests", home.name}
    every = (
        path
        for path in folder.rglob("*")
        if path.relative_to(folder).parts[0] not in own and path.suffix != ".log"
    )
    return {(str(path), stat.S_IFMT(path.lstat().st_mode), path.lstat().st_size) for path in every}


def test_row_30_no_uri_of_a_resource_is_a_way_out(traps, asked):
    read, refused = [], []

    async def ask(client):
        listed = (await client.list_resource_templates()).resource_templates
        bases = [template.uri_template.partition("{")[0] for template in listed]
        assert bases
        for uri in [base + trap for base in bases for trap in traps] + [f"file://{traps[4]}"]:
            try:
                read.append(await client.read_resource(uri))
            except Exception as error:  # noqa: BLE001 - what a client gets differs by transport
                refused.append(str(error))

    asked("stdio", ask)
    assert read == []
    assert refused
    assert MARK not in "".join(refused)


def bombs():
    """Yield calls that ask for endless work, and whether they must fail; each fits into a request."""
    deep = '{"nodes": ' + "[" * 100_000 + "]" * 100_000 + "}"
    digits = '{"nodes": [{"id": "x", "type": "echo", "params": {"message": ' + "9" * 1_000_000 + "}}]}"
    many = json.dumps({"nodes": [{"id": f"n{at}", "type": "echo"} for at in range(90_000)]})
    for text in (deep, digits, many):
        yield "workflow_execute", {"workflow": text}, True
        yield "workflow_validate", {"workflow": text}, True
        yield "workflow_save", {"workflow_file": text, "name": "bomb", "description": "x"}, True
    nested = {}
    for _ in range(150):
        nested = {"a": nested}
    yield "workflow_validate", {"workflow": {"nodes": [], "metadata": nested}}, True
    yield "registry_run", {"node_type": "echo", "parameters": {"message": nested}}, False
    references = "${a.b}" * 100_000
    echo = {"id": "a", "type": "echo", "params": {"message": references}}
    yield "workflow_validate", {"workflow": {"nodes": [echo]}}, True
    for pattern in ("(a+)+$" * 50, "a" * 1_000_000, '"' * 100_000, "* OR NEAR(a b" * 1000):
        yield "registry_search", {"pattern": pattern}, False
        yield "workflow_discover", {"query": pattern}, False
        yield "trace_read", {"trace_file": pattern}, True
    yield "registry_describe", {"nodes": ["ecko"] * 20_000}, True


def test_row_32_bombs_are_refused_in_bounded_time_and_the_server_goes_on(play):
    cases = list(bombs())
    calls = [(tool, arguments) for tool, arguments, _ in cases]
    *answers, last = play(*calls, ("registry_run", {"node_type": "echo", "parameters": {"message": "on"}}))
    for (tool, arguments, must_fail), answer in zip(cases, answers, strict=True):
        assert not (must_fail and answer["success"]), (tool, str(arguments)[:100])
    assert last["data"]["outputs"]["message"] == "on"


def test_row_32_a_message_nested_without_end_does_not_end_the_server(started):
    deep = "[" * 200_000 + "]" * 200_000
    info = {"name": "test", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}),
        json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        f'{{"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {{"a": {deep}}}}}',
        '{"jsonrpc": "2.0", "id": 3, "method": "tools/list", "params": {"a": ' + "9" * 1_000_000 + "}}",
        "not JSON",
        "\x00\xff",
        json.dumps({"jsonrpc": "2.0", "id": 4, "method": "tools/list"}),
    ]
    program = started("mcp", "serve", stdin=subprocess.PIPE)
    program.stdin.write("\n".join(lines) + "\n")
    program.stdin.flush()
    answers = (json.loads(line) for line in program.stdout)
    last = next(answer for answer in answers if answer.get("id") == 4)
    _, said = program.communicate(timeout=BOUND)
    assert last["result"]["tools"]
    assert "Traceback" not in said


VETO = """
from pflow_mcp_plugin.contract import hookimpl
from pflow_mcp_plugin.errors import CallRefused, Where

@hookimpl
def pflow_mcp_prepare_call(call):
    raise CallRefused("the plugin says no", where=Where(server=call.server, tool=call.tool))
"""


@pytest.fixture
def veto(tmp_path):
    """Environment variables with which a plugin that refuses every call is installed."""
    put_plugin(tmp_path / "site", "veto", VETO)
    return importing(tmp_path / "site")


def test_row_36_a_plugin_that_vetoes_calls_is_asked_on_every_served_way(hostile, pflow, workflow, play, veto):
    calling = {"nodes": [{"id": "call", "type": "mcp-hostile-templates"}]}
    batch = {"id": "call", "type": "mcp-hostile-templates", "batch": {"items": [1, 2], "parallel": True}}
    file = workflow(("call", "mcp-hostile-templates", {}))
    assert pflow("workflow", "save", file, "--name", "calls", "--description", "Calls").exit_code == 0
    ways = [
        node("templates"),
        ("workflow_execute", {"workflow": calling}),
        ("workflow_execute", {"workflow": {"nodes": [batch]}}),
        ("workflow_execute", {"workflow": "calls"}),
        ("calls", {}),
    ]
    allowed = play(*ways[:-1])
    assert [answer["success"] for answer in allowed] == [True] * 4
    for (tool, _), answer in zip(ways, play(*ways, options=["--workflows"], env=veto), strict=True):
        assert not answer["success"], tool
        assert "the plugin says no" in json.dumps(answer), tool


@over_both
def test_row_37_a_planted_secret_is_found_nowhere(transport, hostile, pflow_home, asked, tmp_path):
    other = f"{SECRET[::-1]}-of-another-setting"
    failing = {"nodes": [{"id": "bad", "type": "mcp-hostile-fails"}]}
    calls = [
        ("settings_set", {"key": "OTHER_TOKEN", "value": other}),
        ("settings_get", {"key": "OTHER_TOKEN"}),
        ("settings_get", {"key": "API_TOKEN"}),
        node("environment"),
        node("fails"),
        node("templates", path=SECRET),
        ("registry_run", {"node_type": "echo", "parameters": {"message": f"it is {other}"}}),
        ("registry_run", {"node_type": "shell", "parameters": {"command": "echo $((1+1)) >&2; exit 3"}}),
        ("workflow_execute", {"workflow": failing}),
        ("workflow_execute", {"workflow": SECRET}),
        ("workflow_execute", {"workflow": "{" + SECRET}),
        ("workflow_validate", {"workflow": {"nodes": [{"id": SECRET, "type": SECRET}]}}),
        ("registry_describe", {"nodes": [SECRET]}),
        ("trace_read", {"trace_file": "latest"}),
        ("trace_read", {"trace_file": SECRET}),
        ("no_such_tool", {"key": SECRET}),
        ("settings_get", {SECRET: "x"}),
    ]
    printed = []

    async def ask(client):
        for tool, arguments in calls:
            result = await client.call_tool(tool, arguments)
            printed.append(f"{tool} {result.model_dump_json(by_alias=True)}")
        for resource in (await client.list_resources()).resources:
            read = await client.read_resource(resource.uri)
            printed.append(f"{resource.uri} {read.model_dump_json(by_alias=True)}")

    asked(transport, ask)
    printed += [path.read_text() for path in tmp_path.glob("*.log")]
    folders = [pflow_home / name for name in ("state", "cache", "data") if (pflow_home / name).exists()]
    assert folders
    for secret in (SECRET, other):
        assert remains(secret, printed, *folders) == []


@over_both
def test_row_59_what_runs_finds_the_token_neither_in_the_environment_nor_in_a_trace(
    transport, play, pflow_home, folder, new_interpreter
):
    token = "only-in-the-environment-4711"
    looks = {
        "own": "env",
        "parent": "cat /proc/$PPID/environ",
        "grandparents": "for one in /proc/[0-9]*; do grep -l PFLOW_HOME=$PFLOW_HOME $one/environ && "
        "cat $one/environ; done 2>/dev/null; true",
    }
    nodes = [
        {"id": name, "type": "shell", "params": {"command": f"{{ {line}; }} > {folder / name}"}}
        for name, line in looks.items()
    ]
    told = {"id": "told", "type": "echo", "params": {"message": f"{token} {TOKEN}"}}
    arguments = {"workflow": {"nodes": [*nodes, told]}}
    (ran,) = play(("workflow_execute", arguments), transport=transport, env={"PFLOW_SERVE_TOKEN": token})
    assert ran["success"], ran
    for name in looks:
        found = (folder / name).read_bytes()
        assert b"PFLOW_HOME" in found
        assert token.encode() not in found
    assert token not in json.dumps(ran)
    assert token not in Path(ran["trace_path"]).read_text(encoding="utf-8")
    if transport == "http":
        assert TOKEN not in json.dumps(ran)
        assert TOKEN not in Path(ran["trace_path"]).read_text(encoding="utf-8")


@pytest.mark.parametrize(("transport", "options"), [("stdio", []), ("http", ["--no-shell"])])
def test_row_65_one_switch_takes_the_shell_from_agents_on_every_way(
    transport, options, play, pflow, pflow_home, folder
):
    """The option, or the setting."""
    line = {"command": f"touch {folder / 'PWNED'}"}
    shell = {"id": "s", "type": "shell", "params": line}
    (folder / "inner.json").write_text(json.dumps({"nodes": [shell]}), encoding="utf-8")
    assert pflow("workflow", "save", folder / "inner.json", "--name", "inner").exit_code == 0
    shown = pflow("registry", "describe", "shell", "--json").envelope["data"]
    mine = {**shown, "class_name": "Shell", "source": "mine"}
    del mine["node"], mine["may_run_code"]
    document = {"schema_version": 1, "nodes": {"my-shell": mine}}
    (pflow_home / "data").mkdir(exist_ok=True)
    (pflow_home / "data" / "registry.json").write_text(json.dumps(document), encoding="utf-8")
    if not options:
        config = pflow_home / "config" / "mcp-servers.toml"
        config.parent.mkdir(exist_ok=True)
        config.write_text("[serve]\nno_shell = true\n", encoding="utf-8")
        config.chmod(0o600)
    inside = {"id": "w", "type": "workflow", "params": {"workflow": "inner"}}
    plain = {"nodes": [shell]}
    in_a_batch = [{"nodes": [{**node, "batch": {"items": [1, 2]}}]} for node in (shell, inside)]
    after_another = {"nodes": [{"id": "e", "type": "echo", "params": {"message": "x"}}, shell]}
    of_another_source = {"nodes": [{**shell, "type": "my-shell"}]}
    workflows = (plain, *in_a_batch, {"nodes": [inside]}, after_another, of_another_source)
    tries = [
        *(("workflow_execute", {"workflow": each}) for each in workflows),
        ("workflow_execute", {"workflow": "inner"}),
        ("workflow_execute", {"workflow": "inner.json"}),
        ("registry_run", {"node_type": "shell", "parameters": line}),
        ("registry_run", {"node_type": "my-shell", "parameters": line}),
        ("registry_run", {"node_type": "workflow", "parameters": {"workflow": "inner"}}),
        ("workflow_validate", {"workflow": plain}),
        ("workflow_save", {"workflow_file": json.dumps(plain), "name": "later", "description": "x"}),
        ("workflow_execute", {"workflow": "later"}),
    ]
    lists = [
        ("registry_list", {}),
        ("registry_search", {"pattern": "run a command in a shell"}),
        ("registry_discover", {"task": "run a shell command"}),
        ("registry_describe", {"nodes": ["shell"]}),
    ]
    honest = ("registry_run", {"node_type": "echo", "parameters": {"message": "still here"}})
    *answers, listed, searched, discovered, described, echoed = play(
        *tries, *lists, honest, transport=transport, options=options
    )
    for attempt, answer in zip(tries, answers, strict=True):
        assert answer["success"] is False, attempt
        told = "--no-shell" in json.dumps(answer)
        assert told or attempt[1].get("workflow") in ("later", "inner.json"), (attempt, answer)
    assert list(folder.rglob("PWNED")) == []
    for nodes in (listed["data"]["nodes"], searched["data"]["nodes"], discovered["data"]["matches"]):
        assert "shell" not in {node["node"].removeprefix("my-") for node in nodes}
    assert "--no-shell" in described["data"]["nodes"][0]["withheld"]["suggestion"]
    assert echoed["data"]["outputs"]["message"] == "still here"


def test_row_65_a_saved_workflow_with_a_shell_is_no_tool_where_agents_have_none(pflow, asked, folder):
    for name, node in (
        ("bare", {"type": "shell", "params": {"command": "true"}}),
        ("good", {"type": "echo"}),
    ):
        document = {"nodes": [{"id": "n", "params": {"message": "x"}, **node}]}
        (folder / "w.json").write_text(json.dumps(document), encoding="utf-8")
        assert pflow("workflow", "save", folder / "w.json", "--name", name).exit_code == 0

    async def names(client):
        return {tool.name for tool in (await client.list_tools()).tools}

    assert asked("stdio", names, options=["--workflows"]) >= {"bare", "good"}
    without = asked("stdio", names, options=["--workflows", "--no-shell"])
    assert "good" in without
    assert "bare" not in without
