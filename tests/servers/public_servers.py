"""Public MCP servers: each is installed, added, synced, tested and called with the installed `pflow`.

    python tests/servers/public_servers.py [--only NAME]...

prints a line on each and exits with 1 if a server failed. The servers, at pinned versions, are in
`public_servers.toml`; they are installed once per checkout, each by itself, and run offline.
"""

from __future__ import annotations

import argparse
import http.server
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import real_servers
from real_servers import Unavailable, install_once, listening, run_installer

LIST = Path(__file__).with_suffix(".toml")
_INSTALLED = real_servers.INSTALLED / "public"
_STEPS = ("add", "sync", "test", "call")
_STEP_SECONDS = 180
_START_SECONDS = 60
_PATHS = {"http": "mcp", "sse": "sse"}


@attrs.frozen(kw_only=True)
class PublicServer:
    """A public server, as `public_servers.toml` describes it.

    Attributes:
        name: Its name in the config of pflow.
        npm: Its package on npm, `NAME@VERSION`.
        pypi: Its package on PyPI, `NAME==VERSION`.
        beside: What else its environment needs, as requirements for pip.
        command: A program that is there already, in place of a package.
        program: The package's program, if it is not the first, or not named like the package.
        args: Its arguments; `{work}`, `{page}` and `{repository}` stand for the samples.
        env: Its environment variables, likewise.
        transport: `stdio`, or `http` or `sse`: then it is told its port in `PORT`.
        tool: The tool to call; without one, the tools are only listed.
        arguments: The arguments of the call.
        expect: Text that the result must contain.
        remark: What to know about it.
    """

    name: str
    npm: str = ""
    pypi: str = ""
    beside: Sequence[str] = ()
    command: Sequence[str] = ()
    program: str = ""
    args: Sequence[str] = ()
    env: Mapping[str, str] = attrs.field(factory=dict)
    transport: str = "stdio"
    tool: str = ""
    arguments: Mapping[str, Any] = attrs.field(factory=dict)
    expect: str = ""
    remark: str = ""

    @property
    def version(self) -> str:
        """The pinned version, empty without a package."""
        return self.npm.rpartition("@")[2] or self.pypi.partition("==")[2]


@attrs.define(kw_only=True)
class Row:
    """What came of one server: its outcome of each step is `ok`, `failed` or `-`."""

    name: str
    version: str
    protocol: str = ""
    tools: int = 0
    outcomes: dict[str, str] = attrs.field(factory=lambda: dict.fromkeys(_STEPS, "-"))
    seconds: dict[str, float] = attrs.field(factory=dict)
    remark: str = ""

    @property
    def failed(self) -> bool:
        """Whether a step failed, or none was taken."""
        return "failed" in self.outcomes.values() or self.outcomes["sync"] == "-"

    def __str__(self) -> str:
        outcomes = "  ".join(f"{step} {self.outcomes[step]:6}" for step in _STEPS)
        seconds = " ".join(f"{step} {spent:.1f} s" for step, spent in self.seconds.items())
        about = f"{self.name:24}  {self.version:12}  {self.protocol:10}  {self.tools:3} tools"
        return f"{about}  {outcomes}  {seconds:26}  {self.remark}".rstrip()


class StepFailed(Exception):
    """A command of pflow failed; the message is its error."""


class Desk:
    """A home of pflow of its own, and the samples that servers work on.

    Args:
        home: An empty folder.

    Attributes:
        samples: What the placeholders of the list stand for.
    """

    def __init__(self, home: Path, page: str) -> None:
        self._home = home / "pflow"
        self.work = home / "work"
        self.work.mkdir()
        repository = home / "repository"
        self.samples = {"work": str(self.work), "page": page, "repository": str(repository)}
        _write_samples(self.work)
        _commit(repository)

    def pflow(self, group: str, command: str, *words: str) -> tuple[float, Any]:
        """Run `pflow GROUP COMMAND --json`; return the seconds it took, and its data."""
        program = Path(sys.executable).with_name("pflow")
        env = {**os.environ, "PFLOW_HOME": str(self._home)}
        started = time.monotonic()
        try:
            done = subprocess.run(
                [str(program), group, command, "--json", *words],
                env=env,
                cwd=self.work,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                timeout=_STEP_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise StepFailed(f"no end within {_STEP_SECONDS} s") from None
        seconds = time.monotonic() - started
        answer = json.loads(done.stdout) if done.stdout else {"error": {"message": done.stderr.strip()}}
        if not answer.get("success"):
            raise StepFailed(answer["error"]["message"].partition("\n")[0])
        return seconds, answer["data"]


def read_list(path: Path = LIST) -> list[PublicServer]:
    """Return the servers of the list, in its order."""
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    return [PublicServer(name=name, **table) for name, table in tables.items()]


def chosen(servers: Sequence[PublicServer], names: Sequence[str]) -> list[PublicServer]:
    """Return the servers of these names, all of them if there are none."""
    if unknown := set(names) - {server.name for server in servers}:
        known = ", ".join(server.name for server in servers)
        raise LookupError(f"not in the list: {', '.join(sorted(unknown))}; it has {known}")
    return [server for server in servers if not names or server.name in names]


def filled(value: Any, samples: Mapping[str, str]) -> Any:
    """Return a value of the list with its placeholders replaced, at any depth."""
    if isinstance(value, str):
        for name, sample in samples.items():
            value = value.replace(f"{{{name}}}", sample)
        return value
    if isinstance(value, Mapping):
        return {key: filled(each, samples) for key, each in value.items()}
    return [filled(each, samples) for each in value] if isinstance(value, list) else value


def check(server: PublicServer, desk: Desk) -> Row:
    """Take a server through all steps, up to the first that fails."""
    row = Row(name=server.name, version=server.version, remark=server.remark)
    step = "install"
    try:
        command = [*installed(server), *filled([*server.args], desk.samples)]
        env = filled(server.env, desk.samples)
        with _target(server, command, env) as target:
            for step, take in (("add", _add), ("sync", _sync), ("test", _test), ("call", _call)):
                if step != "call" or server.tool:
                    take(row, server, desk, target)
                    row.outcomes[step] = "ok"
    except (StepFailed, Unavailable, TimeoutError) as reason:
        if step in row.outcomes:
            row.outcomes[step] = "failed"
        row.remark = f"{step}: {reason}"
    return row


def _add(row: Row, server: PublicServer, desk: Desk, target: Sequence[str]) -> None:
    desk.pflow("mcp", "add", server.name, *target)


def _sync(row: Row, server: PublicServer, desk: Desk, target: Sequence[str]) -> None:
    row.seconds["sync"], (synced,) = desk.pflow("mcp", "sync", server.name)
    row.tools = synced["tools_registered"]
    if not row.tools:
        raise StepFailed("no tools")
    if synced["skipped"]:
        raise StepFailed(f"tools skipped: {synced['skipped']}")


def _test(row: Row, server: PublicServer, desk: Desk, target: Sequence[str]) -> None:
    _, tested = desk.pflow("mcp", "test", server.name)
    row.protocol = tested["protocol"]
    if tested["sync_due"]:
        raise StepFailed("its tools differ at each start")


def _call(row: Row, server: PublicServer, desk: Desk, target: Sequence[str]) -> None:
    arguments = filled(server.arguments, desk.samples)
    texts = {key: each if isinstance(each, str) else json.dumps(each) for key, each in arguments.items()}
    pairs = [f"{key}={text}" for key, text in texts.items()]
    node = f"mcp-{server.name}-{server.tool}"
    row.seconds["call"], data = desk.pflow("registry", "run", node, *pairs)
    outputs = json.dumps(data["outputs"], ensure_ascii=False)
    if server.expect not in outputs:
        raise StepFailed(f"{server.expect!r} is not in {outputs[:200]}")


@contextmanager
def _target(server: PublicServer, command: Sequence[str], env: Mapping[str, str]) -> Iterator[list[str]]:
    """Give what `pflow mcp add` is told of a server: its command, or the URL at which it was started."""
    if server.transport == "stdio":
        pairs = [word for key, value in env.items() for word in ("--env", f"{key}={value}")]
        yield [*pairs, "--", *command]
        return
    with listening(command, _START_SECONDS, env) as address:
        yield [f"{address}/{_PATHS[server.transport]}", "--type", server.transport]


def installed(server: PublicServer) -> list[str]:
    """Return the command that starts a server, after installing its package unless that is there."""
    if server.npm:
        return _from_npm(server)
    return [_from_pypi(server)] if server.pypi else [*server.command]


def _from_npm(server: PublicServer) -> list[str]:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise Unavailable("Node or npm is not installed")
    name, _, version = server.npm.rpartition("@")
    folder = _INSTALLED / f"{name}@{version}".replace("/", "+")
    with install_once(folder, server.npm) as needed:
        if needed:
            options = ["--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(folder)]
            run_installer([npm, "install", *options, server.npm], folder)
    root = folder / "node_modules" / name
    programs = json.loads((root / "package.json").read_text(encoding="utf-8"))["bin"]
    if isinstance(programs, str):
        return [node, str(root / programs)]
    return [node, str(root / programs[server.program or next(iter(programs))])]


def _from_pypi(server: PublicServer) -> str:
    name, _, version = server.pypi.partition("==")
    folder = _INSTALLED / f"{name}-{version}"
    with install_once(folder, f"{server.pypi} {server.beside}") as needed:
        if needed:
            run_installer([sys.executable, "-m", "venv", "--clear", str(folder / "venv")], folder)
            pip = [str(folder / "venv/bin/python"), "-m", "pip", "install", "--quiet"]
            run_installer([*pip, server.pypi, *server.beside], folder)
    return str(folder / "venv/bin" / (server.program or name))


def _write_samples(work: Path) -> None:
    (work / "notes.txt").write_text("A public sample.\n", encoding="utf-8")
    (work / "sample.js").write_text("var unused = 1\n", encoding="utf-8")
    with sqlite3.connect(work / "sample.db") as database:
        database.execute("CREATE TABLE planets (name TEXT, moons INTEGER)")
        database.execute("INSERT INTO planets VALUES ('Mars', 2)")
    database.close()


def _commit(repository: Path) -> None:
    git = ["git", "-C", str(repository), "-c", "user.name=Sample", "-c", "user.email=sample@example.com"]
    subprocess.run(["git", "init", "--quiet", str(repository)], check=True)
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "-m", "First sample"], check=True)


class _Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:  # the name that http.server calls
        found = self.path == "/"
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<html><body><h1>A public sample</h1></body></html>" if found else b"")

    def log_message(self, *_: object) -> None:
        return


@contextmanager
def _page() -> Iterator[str]:
    """Serve a page on loopback, and give its URL."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Page) as served:
        thread = threading.Thread(target=served.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{served.server_port}/"
        served.shutdown()


@contextmanager
def desk() -> Iterator[Desk]:
    """Give a desk in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="public-servers-") as home, _page() as page:
        yield Desk(Path(home), page)


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the chosen servers and print what came of each; return the exit code."""
    parser = argparse.ArgumentParser(description="Check pflow against public MCP servers.")
    parser.add_argument("--only", metavar="NAME", action="append", default=[], help="only this server")
    try:
        servers = chosen(read_list(), parser.parse_args(arguments).only)
    except LookupError as error:
        parser.error(str(error))
    rows = []
    with desk() as place:
        for server in servers:
            rows.append(check(server, place))
            print(rows[-1], flush=True)
    called = sum(row.outcomes["call"] == "ok" for row in rows)
    failed = sum(row.failed for row in rows)
    tools = sum(row.tools for row in rows)
    print(f"{len(rows)} servers, {tools} tools, {called} called, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
