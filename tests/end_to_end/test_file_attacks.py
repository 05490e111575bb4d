"""Attacks by files: those that people are given, those put where we write, and those others read.

`tests/data/threat_rows.py` says which tests play which row.
"""

import hashlib
import json
import os
import resource
import stat
import subprocess
from pathlib import Path

import pytest
from planted_secrets import remains
from prepared_starts import PROGRAM
from programs import script_server

from pflow_mcp_plugin.host.cli.command_line import main

MARK = "MARK-of-a-file-outside"
SECRET = "Zq7xK2mP9wL4vB8nT3cR6yH1jF5dG0sA7eU2iO9p"
CLIENT_SERVER = Path(__file__).parents[1] / "client/scripted.py"
LARGE = "x" * (300 << 10)
"""A result above `inline_limit_kb`, which is in a file, too."""
TAKES_VALUE = {"type": "object", "properties": {"value": {"type": "string"}}}
MEMORY = 3 << 28
"""Bytes of address space that a program may have that was given a bomb."""
SECONDS = 8
"""Seconds of processor time that it may take."""


@pytest.fixture
def odd(scripted, log):
    """The scripted server, added and synced; what the sync did is no longer in its log."""

    def add(*names, **options):
        scripted(*names, env={"LOG": str(log), **options.pop("env", {})}, **options)
        log.unlink(missing_ok=True)

    return add


@pytest.fixture
def replying(configured):
    """Add a server whose tool `act` replies with this content, and sync it."""

    def add(content, **env):
        configured("odd", script_server(CLIENT_SERVER, f"reply({{'content': {content}}})", env=env))

    return add


@pytest.fixture
def large(replying):
    """Add one whose reply is in a file, too."""

    def add(**env):
        replying(f"[{{'type': 'text', 'text': {LARGE[0]!r} * {len(LARGE)}}}]", **env)

    return add


def test_row_09_what_a_tool_returns_is_a_value_to_a_shell_and_to_a_batch(replying, pflow, workflow, tmp_path):
    text = f"$(touch {tmp_path}/PWNED) ; touch {tmp_path}/PWNED `touch {tmp_path}/PWNED` ${{a.result}}"
    replying([{"type": "text", "text": text.replace("${", "$${")}])
    path = workflow(
        ("a", "mcp-odd-act", {}),
        ("b", "shell", {"command": "printf %s ${a.result}"}),
        outputs={"shell": "${b.stdout}", "each": "${c.results}"},
    )
    document = json.loads(path.read_text())
    batch = {"items": ["${a.result}"]}
    document["nodes"].append({"id": "c", "type": "echo", "params": {"message": "${item}"}, "batch": batch})
    path.write_text(json.dumps(document))
    ran = pflow("run", path, "--json")
    assert ran.exit_code == 0, ran.stderr
    outputs = ran.envelope["data"]["outputs"]
    assert outputs["shell"] == text
    assert outputs["each"][0]["message"] == text
    assert not (tmp_path / "PWNED").exists()


def test_row_23_nothing_that_a_run_leaves_can_be_read_by_others(large, pflow, workflow, pflow_home):
    """Config, settings, tool files, traces, artefacts, indexes, locks: whatever the umask would allow."""
    before = os.umask(0)
    try:
        assert pflow("settings", "set", "API_TOKEN", SECRET).exit_code == 0
        large(TOKEN="${API_TOKEN}")
        path = workflow(("a", "mcp-odd-act", {}), outputs={"kept": "${a.result}"})
        path.chmod(0o600)
        ran = pflow("run", path, "--json")
        assert pflow("workflow", "save", path, "--name", "kept", "--description", "x").exit_code == 0
        assert pflow("registry", "search", "act").exit_code == 0
    finally:
        os.umask(before)
    assert ran.envelope["data"]["outputs"]["kept"] == LARGE
    (artefact,) = (pflow_home / "state" / "artifacts").glob("*/*")
    assert artefact.stat().st_size == len(LARGE)
    found = {path: stat.S_IMODE(path.lstat().st_mode) for path in pflow_home.rglob("*")}
    loose = {path: oct(mode) for path, mode in found.items() if mode & 0o077}
    assert len(found) > 10
    assert loose == {}


def test_row_24_a_link_in_the_place_of_an_artefact_is_not_followed(
    large, pflow, pflow_home, workflow, tmp_path
):
    """Its name is the hash of what the server returns, who therefore knows it, and returns it once more."""
    large()
    outside = tmp_path / "outside"
    outside.write_text(MARK)
    plant = f"set -e; for file in {pflow_home}/state/artifacts/*/*; do rm $file; ln -s {outside} $file; done"
    path = workflow(("a", "mcp-odd-act", {}), ("b", "shell", {"command": plant}), ("c", "mcp-odd-act", {}))
    ran = pflow("run", path, "--json")
    assert ran.exit_code == 0, ran.stderr
    (again,) = (pflow_home / "state" / "artifacts").glob("*/*")
    assert not again.is_symlink()
    assert hashlib.sha256(again.read_bytes()).hexdigest() == hashlib.sha256(LARGE.encode()).hexdigest()
    assert outside.read_text() == MARK


def test_row_24_files_put_where_temporary_ones_will_be_are_neither_used_nor_followed(
    pflow_home, tmp_path, monkeypatch
):
    """The random part of the name is known to the attacker here."""
    outside = tmp_path / "outside"
    assert main(["mcp", "add", "one", "--", "true"]) == 0
    config = pflow_home / "config"
    monkeypatch.setattr(os, "urandom", bytes)
    temporary = config / f".mcp-servers.toml.{os.getpid()}-{'00' * 6}.tmp"
    temporary.symlink_to(outside)
    assert main(["mcp", "add", "two", "--", "true"]) != 0
    assert not outside.exists()
    assert main(["mcp", "add", "two", "--", "true"]) == 0  # the attempt removed what was in its way
    assert not (config / "mcp-servers.toml").is_symlink()


ABSENT = {
    "a server that is not there": ("mcp-nowhere-act", {}, "Server nowhere not configured"),
    "a tool that is not there": ("mcp-odd-nothing", {}, "nothing"),
    "a node that is not there": ("nothing", {}, "nothing"),
    "another server": ("mcp-odd-act", {"__mcp_server__": "evil"}, "__mcp_server__ of node b is reserved"),
    "another tool": ("mcp-odd-act", {"__mcp_tool__": "evil"}, "__mcp_tool__ of node b is reserved"),
    "anything reserved": ("echo", {"message": "x", "__node_id__": "a"}, "__node_id__ of node b is reserved"),
}


@pytest.mark.parametrize("case", ABSENT)
def test_row_28_a_workflow_that_names_what_is_not_there_runs_nothing(odd, pflow, log, tmp_path, case):
    """Nothing before it runs either: no file is written and no server is started."""
    node_type, params, said = ABSENT[case]
    odd("act", schema=TAKES_VALUE)
    first = {"id": "w", "type": "write-file", "params": {"file_path": str(tmp_path / "ran"), "content": "x"}}
    # It would be sent a secret, if anything ran.
    asked = {"id": "a", "type": "mcp-odd-act", "params": {"value": SECRET}}
    bad = {"id": "b", "type": node_type, "params": params}
    path, in_a_batch = tmp_path / "given.json", tmp_path / "batch.json"
    path.write_text(json.dumps({"nodes": [first, asked, bad]}))
    in_a_batch.write_text(json.dumps({"nodes": [first, asked, {**bad, "batch": {"items": [1, 2]}}]}))
    for command in (("run", path), ("run", in_a_batch), ("workflow", "export-python", path)):
        refused = pflow(*command, "--json")
        assert refused.exit_code == 2, command
        assert said in refused.stdout, command
        assert '"suggestion' in refused.stdout
    assert not (tmp_path / "ran").exists()
    assert not log.exists()


def test_row_28_a_reserved_parameter_is_refused_wherever_a_node_is_run(odd, pflow, log):
    odd("act")
    for command in (
        ("registry", "run", "mcp-odd-act", "__mcp_server__=evil"),
        ("run-node", "mcp-odd-act", "--__mcp_server__", "evil"),
        ("mcp", "call", "odd", "act", "--__mcp_tool__", "evil"),
    ):
        refused = pflow(*command)
        assert refused.exit_code == 2, command
        assert "__mcp_" in refused.stderr
    assert not log.exists()


NAMES = [
    *("../outside", "..", ".", "a/../../outside", "/etc/passwd", "..\\outside", "C:\\outside", "~/outside"),
    *("CON", "a\0b", "a\nb", "\N{RIGHT-TO-LEFT OVERRIDE}x", "", " ", "x" * 5000),
    *("%2e%2e/outside", "\N{FULLWIDTH FULL STOP}\N{FULLWIDTH FULL STOP}/outside", ".hidden/../../outside"),
]


@pytest.mark.parametrize("name", NAMES, ids=[ascii(name)[:30] for name in NAMES])
def test_row_30_no_name_is_a_way_out_of_the_library_the_traces_or_the_servers(
    name, pflow_home, tmp_path, monkeypatch, capfd
):
    monkeypatch.chdir(tmp_path)
    document = json.dumps({"nodes": [{"id": "x", "type": "echo", "params": {"message": MARK}}]})
    for place in ("", "home/", "home/config/", "home/state/"):
        path = tmp_path / f"{place}outside.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(document)
    given = tmp_path / "given.json"
    given.write_text('{"nodes": [{"id": "x", "type": "echo", "params": {"message": "mine"}}]}')
    (tmp_path / "outside").write_text(document)
    before = contents(tmp_path)
    for command in (
        ["workflow", "save", str(given), "--description", "x", "--name", name],
        ["workflow", "show", name],
        ["workflow", "delete", name],
        ["trace", "show", name],
        ["mcp", "add", "--", name],
        ["mcp", "remove", name],
        *([["mcp", "sync", name]] if name else []),  # without a name it syncs all
        ["registry", "describe", name],
    ):
        assert main(command) != 0, command
    assert MARK not in "".join(capfd.readouterr())
    after = contents(tmp_path)
    assert {path: after.get(path) for path in before} == before
    assert not [path for path in after.keys() - before.keys() if pflow_home not in path.parents]


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def bombs():
    """Return files that ask for endless work, with the command that reads each, and what writes it."""
    echo = {"id": "a", "type": "echo", "params": {"message": "x"}}
    deep: object = "x"
    for _ in range(900):
        deep = {"a": deep}
    edges = ({"from": "n0", "to": f"n{at % 9}"} for at in range(40_000))

    def nodes(count):
        return [{**echo, "id": f"n{at}"} for at in range(count)]

    def said(message):
        return json.dumps({"nodes": [{**echo, "params": {"message": message}}]})

    workflows = {
        "brackets": lambda: '{"nodes": ' + "[" * 1_000_000 + "]" * 1_000_000 + "}",
        "nested params": lambda: said(deep),
        "digits": lambda: said(0).replace("0", "9" * 4_000_000),
        "many nodes": lambda: json.dumps({"nodes": nodes(20_000)}),
        "many edges": lambda: json.dumps({"nodes": nodes(9), "edges": list(edges)}),
        "templates": lambda: said("${b." * 200_000),
        "many keys": lambda: '{"nodes": [], ' + ", ".join(f'"k{at}": 1' for at in range(100_000)) + "}",
    }
    servers = {
        "a deep server": lambda: json.dumps({"mcpServers": {"a": {"command": "x", "env": deep}}}),
        "many servers": lambda: json.dumps(
            {"mcpServers": {f"s{at} !": {"command": 1} for at in range(10_000)}}
        ),
    }
    part = """ . "a.b" . 'a' . a"""
    configs = {
        "a long key": lambda: ".".join(["a"] * 200_000) + " = 1",
        "a long key in a table": lambda: f"a = [{{ b = 1, c{part * 70_000} = 1 }}]",
    }
    for command, files in ((("validate",), workflows), (("mcp", "add"), servers), ((), configs)):
        yield from ((name, command, text) for name, text in files.items())


def limit():
    """Limit what the process may use; what exceeds it is ended by a signal."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


BOMBS = {name: case for name, *case in bombs()}


@pytest.mark.parametrize("name", BOMBS)
def test_row_32_a_bomb_is_an_error_in_bounded_time_and_memory(name, pflow_home, tmp_path):
    command, text = BOMBS[name]
    file = tmp_path / "bomb.json" if command else pflow_home / "config/mcp-servers.toml"
    file.parent.mkdir(exist_ok=True)
    command = (*command, str(file)) if command else ("mcp", "list")
    file.write_text(text())
    file.chmod(0o600)
    done = subprocess.run(
        [*PROGRAM, *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        preexec_fn=limit,
    )
    assert done.returncode == 2, done.stderr[-2000:]
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith(("Error: ", "Warning: "))
    assert len(done.stderr) < 2 << 20


def test_row_37_no_secret_is_left_in_what_is_made_of_a_workflow(
    odd, pflow, python, workflow, pflow_home, tmp_path
):
    """In the program that it is exported to, in pages, in exports of the config, and in the answers."""
    odd("act", env={"TOKEN": "${API_TOKEN}"}, schema=TAKES_VALUE)
    assert pflow("settings", "set", "API_TOKEN", SECRET).exit_code == 0
    path = workflow(
        ("a", "mcp-odd-act", {"value": "x"}),
        ("b", "shell", {"command": f"echo {SECRET[:6]} >&2; exit 3"}),
    )
    printed = []
    for line in (
        *(f"run {path}", f"run {path} --json", f"workflow export-python {path} --output program.py"),
        *(f"workflow graph {path} --html graph.html", "trace view --output page.html", "mcp list --json"),
        *("mcp export --to cursor", "mcp info mcp-odd-act --json", "mcp test odd --json", "registry export"),
        *("settings list", "settings get API_TOKEN", "mcp stubs --output stubs.pyi", "config check"),
        "plugins --json",
    ):
        done = pflow(*line.split())
        assert done.exit_code == (1 if line.startswith("run ") else 0), (line, done.stderr)
        printed += [done.stdout, done.stderr]
    made = [tmp_path / name for name in ("program.py", "graph.html", "page.html")]
    printed += [path.read_text() for path in made]
    kept = [pflow_home / name for name in ("state", "cache", "data") if (pflow_home / name).exists()]
    assert remains(SECRET, printed, *kept) == []
    program = python("program.py")
    assert program.exit_code
    assert remains(SECRET, [program.stderr], *kept) == []
