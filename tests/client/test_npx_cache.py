"""Servers that npx installs first, which may take longer than a start, or has installed incompletely."""

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import attrs
import pytest
from programs import executable, until

from pflow_mcp_plugin.client import Pool, deadlines
from pflow_mcp_plugin.client.server_process import incomplete_folder, remove_folder
from pflow_mcp_plugin.errors import ConnectionFailed
from pflow_mcp_plugin.exchange import Launch
from pflow_mcp_plugin.types import Server

pytestmark = pytest.mark.programs

NPX = Server(name="tiny", command="npx")
WORDS = {"name": "tiny-words", "version": "1.0.0"}
SERVER = """#!/usr/bin/env node
const { greeting } = require('tiny-words')
require('readline').createInterface({ input: process.stdin }).on('line', line => {
  const { id, method, params } = JSON.parse(line)
  if (method === 'initialize') {
    const result = { protocolVersion: params.protocolVersion, capabilities: { tools: {} },
      serverInfo: { name: greeting, version: '1' } }
    console.log(JSON.stringify({ jsonrpc: '2.0', id, result }))
  } else if (id !== undefined) {
    console.log(JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32601, message: 'none' } }))
  }
})
"""


def packed(path: Path, manifest: Mapping[str, object], code: str) -> Path:
    """Write an npm package of two files."""
    with tarfile.open(path, "w:gz") as archive:
        for name, text in (("package.json", json.dumps(manifest)), ("index.js", code)):
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size, entry.mode = len(text), 0o755
            archive.addfile(entry, io.BytesIO(text.encode()))
    return path


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    """A server that npx installs from a file into an empty cache."""
    if shutil.which("npx") is None:
        pytest.skip("npx is not installed")
    words = packed(tmp_path / "words.tgz", WORDS, "exports.greeting = 'tiny'")
    needs = {"dependencies": {"tiny-words": f"file:{words}"}}
    manifest = {"name": "tiny-server", "version": "1.0.0", "bin": "index.js", **needs}
    package = packed(tmp_path / "server.tgz", manifest, SERVER)
    args = ("-y", "--offline", f"--package={package}", "tiny-server")
    cache = {"npm_config_cache": str(tmp_path / "cache")}
    return Launch(server=attrs.evolve(NPX, args=args, env=cache), era="handshake")


@pytest.fixture
def installed(launch: Launch, tmp_path: Path) -> Path:
    """The folder of the npx cache in which the server is."""
    with Pool(print) as pool:
        assert pool.info(launch).name == "tiny"
    (folder,) = (tmp_path / "cache/_npx").iterdir()
    return folder


def test_what_npx_installed_incompletely_is_removed_and_installed_again(
    launch, installed, pool, warnings_seen
):
    (installed / "node_modules/tiny-words/index.js").unlink()
    (installed / "node_modules/.package-lock.json").unlink()
    assert pool.info(launch).name == "tiny"
    (said,) = warnings_seen
    assert f"server tiny was not completely installed by npx: {installed} was removed" in said
    assert [each.name for each in installed.parent.iterdir()] == [installed.name]


def test_an_installation_is_made_again_only_once_in_a_run(launch, installed, pool, warnings_seen, tmp_path):
    packed(tmp_path / "words.tgz", WORDS, "require('gone')")
    shutil.rmtree(tmp_path / "cache/_cacache")
    (installed / "node_modules/tiny-words/index.js").unlink()
    for _ in range(2):
        with pytest.raises(ConnectionFailed, match="exited 1 before the handshake"):
            pool.info(launch)
    assert len(warnings_seen) == 1


@pytest.fixture
def half(tmp_path: Path) -> Path:
    """A folder like one of the npx cache."""
    folder = tmp_path / "a cache/_npx/0123456789abcdef"
    (folder / "node_modules").mkdir(parents=True)
    return folder


@pytest.mark.parametrize(
    "says",
    [
        "Error: Cannot find module 'ajv'\nRequire stack:\n- {folder}/node_modules/x/index.js",
        "Error: Cannot find package '{folder}/node_modules/zod/index.js' imported from x",
        "Error: Cannot find module 'file://{folder}/node_modules/zod/index.js' imported",
        "npm error code ENOENT\nnpm error syscall open\nnpm error path {folder}/package.json",
        "npm ERR! code ENOTEMPTY\nnpm ERR! syscall rename\nnpm ERR! path {folder}/node_modules/zod",
    ],
)
def test_the_folder_is_found_in_what_node_or_npm_says(half, says):
    found = incomplete_folder(NPX, says.format(folder=half))
    assert found is not None
    assert found.samefile(half)


def test_what_is_no_installation_or_belongs_to_another_program_stays(half, tmp_path):
    says = f"Error: Cannot find module 'ajv'\n- {half}/node_modules/x/index.js"
    assert incomplete_folder(Server(name="tiny", command="node"), says) is None
    assert incomplete_folder(NPX, f"Error: wrong token\n    at {half}/node_modules/x/index.js") is None
    assert incomplete_folder(NPX, says.replace("0123456789abcdef", "0123456789abcdee")) is None
    assert incomplete_folder(NPX, "Error: Cannot find module 'ajv'") is None


def test_a_folder_into_which_another_npx_installs_stays(half):
    says = f"npm error code ENOENT\nnpm error path {half}/package.json"
    lock = half / "concurrency.lock"
    lock.mkdir()
    assert incomplete_folder(NPX, says) is None
    os.utime(lock, (time.time() - 90,) * 2)
    assert incomplete_folder(NPX, says) == half


def test_a_folder_that_cannot_be_removed_is_not_reported_as_gone(half):
    assert remove_folder(half)
    assert not remove_folder(half)
    assert [*half.parent.iterdir()] == []


# As npm does: SIGTERM undoes what is installed so far, which takes longer than a server gets to end.
RUNNER = """#!{python}
import os, signal, sys, time
from pathlib import Path

def roll_back(*_):
    time.sleep(3)
    Path({log!r}).write_text("rolled back")
    sys.exit(1)

signal.signal(signal.SIGTERM, roll_back)
Path({log!r}).write_text("installing")
time.sleep(float(sys.argv[1]))
os.execv({python!r}, [{python!r}, *sys.argv[2:]])
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """What the runner did."""
    return tmp_path / "log"


@pytest.fixture
def npx(tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Launch]:
    """Return a launch of the bundled server by a runner that first installs for so many seconds.

    How long which server may take is in `test_deadlines.py`.
    """
    path = executable(tmp_path / "bin" / "npx", RUNNER.format(python=sys.executable, log=str(log)))
    monkeypatch.setenv("PATH", str(path.parent), prepend=":")
    monkeypatch.setattr(deadlines, "START_SECONDS", 0.5)

    def make(seconds: float) -> Launch:
        args = (str(seconds), "-m", "pflow_mcp_plugin.server.demo_server")
        return Launch(server=Server(name="slow", command="npx", args=args))

    return make


def test_a_server_that_is_being_installed_has_more_time_and_the_user_is_told(npx, pool, warnings_seen):
    assert pool.info(npx(1)).name == "pflow-demo"
    (said,) = warnings_seen
    assert "npx may still be installing it, for at most 300 s (startup_timeout sets" in said


def test_an_installation_without_end_is_given_up_and_may_undo_what_it_did(npx, pool, log, monkeypatch):
    monkeypatch.setattr(deadlines, "INSTALL_SECONDS", 1.0)
    within = "did not finish its start within 1 s: npx may still have been installing it"
    with pytest.raises(ConnectionFailed, match=within) as caught:
        pool.info(npx(60))
    assert caught.value.where.phase == "start"
    assert log.read_text() == "rolled back"


@pytest.mark.parametrize("opening", [True, False], ids=["while it is opened", "before it is opened"])
def test_the_end_of_a_run_lets_an_installation_undo_what_it_did(npx, log, opening):
    said: list[str] = []
    with Pool(said.append) as pool:
        if opening:
            pool.prepare(npx(60))
        else:
            pool._supervisor(npx(60)).start()
        until(lambda: log.exists() and (begun(pool) or not opening))
    assert log.read_text() == "rolled back"
    # On a busy machine, it may first be said that it takes long.
    assert said[-1:] == ["server slow was still being installed: that has 10 s to be undone"]


def begun(pool: Pool) -> bool:
    """Whether the server is being connected to."""
    return any(supervisor._opening is not None for supervisor in pool._supervisors.values())


KILLED = """
import os, signal, sys, time
from pathlib import Path
from pflow_mcp_plugin.client import Pool
from pflow_mcp_plugin.exchange import Launch
from pflow_mcp_plugin.types import Server
pool = Pool(print)
pool.prepare(Launch(server=Server(name="slow", command="npx", args=("60",))))
while not Path(sys.argv[1]).exists():
    time.sleep(0.01)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_an_installation_may_undo_what_it_did_when_pflow_is_killed(npx, log):
    subprocess.run([sys.executable, "-c", KILLED, str(log)], check=False, timeout=60)
    until(lambda: log.read_text() == "rolled back")
