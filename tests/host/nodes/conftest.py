"""One node run by itself, and programs of pflow that end while the processes of a node live."""

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from ended_processes import gone
from programs import until
from system_limits import run_where_mounted
from workflow_parts import flow, step

from pflow_mcp_plugin.processes.reaper_process import marked_processes

LEAVING = """
import os, signal, subprocess, sys, time
file, seconds, bare = {file!r}, {seconds}, {bare}
signal.signal(signal.SIGTERM, signal.SIG_IGN)
nap = [sys.executable, "-c", "import signal, time; signal.signal(15, 1); time.sleep(600)"]
children = [
    subprocess.Popen(nap),
    subprocess.Popen(nap, start_new_session=True),
    subprocess.Popen(nap, env={{}}),
]
if bare:
    children.append(subprocess.Popen(nap, env={{}}, start_new_session=True))
reading, writing = os.pipe()
for env in (dict(os.environ), {{}})[: 1 + bare]:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.write(writing, f"{{os.getpid()}} ".encode())
            os.closerange(0, 3)
            os.execve(sys.executable, nap, env)
        os._exit(0)
    os.wait()
daemons = ""
while daemons.count(" ") < 1 + bare:
    daemons += os.read(reading, 100).decode()
pids = [*(child.pid for child in children), *map(int, daemons.split())]
with open(file + ".new", "w") as out:
    out.write(" ".join(map(str, pids)))
os.rename(file + ".new", file)
result = "done"
time.sleep(seconds)
"""

RUN_NODES = """
import json, sys
from pathlib import Path
from pflow_mcp_plugin.host.embedded_host import open_host

with open_host() as host:
    for node in json.loads(sys.argv[1]):
        error = host.runner.run({"nodes": [{"id": "n", **node}]}, {}).error
        print(json.dumps(error and error.message))
files = (path for path in sorted(Path(sys.argv[2]).rglob("*")) if path.is_file())
print(json.dumps({path.name: path.read_text() for path in files}))
"""


@pytest.fixture
def run_mounted(pflow_home):
    """Run nodes where something is mounted; return their errors, the files of a folder then, and stderr."""

    def run(mount, place, nodes, folder, **options):
        nodes = json.dumps(nodes)
        stdout, stderr = run_where_mounted(mount, place, RUN_NODES, nodes, folder, **options)
        *errors, files = map(json.loads, stdout.splitlines())
        return errors, files, stderr

    return run


@pytest.fixture
def one(bench):
    """Run a node with these params; paths become text."""

    def run(kind, /, **params):
        given = {key: str(value) if isinstance(value, Path) else value for key, value in params.items()}
        return bench.run(flow(step("n", kind, given)))

    return run


@pytest.fixture
def refused(one):
    """Run a node that fails; return its error."""

    def run(kind, /, **params):
        outcome = one(kind, **params)
        assert outcome.error is not None, outcome.outputs
        return outcome.error

    return run


@pytest.fixture
def leaving(tmp_path):
    """Code that leaves children, other sessions and daemons, which ignore SIGTERM.

    It writes their process ids to a file, sleeps and ends. With `bare`, some that are not in its session have
    no environment either.
    """
    pids = tmp_path / "pids"

    def all_gone(count=4):
        numbers = [int(number) for number in pids.read_text().split()]
        return len(numbers) == count and gone(*numbers)

    def code(seconds, *, bare=False):
        return LEAVING.format(file=str(pids), seconds=seconds, bare=bare)

    return SimpleNamespace(code=code, pids=pids, all_gone=all_gone)


@pytest.fixture
def end_run(started, tmp_path):
    """Run a workflow and send pflow a signal once a file is written; nothing of the run may be left."""

    def end_run(workflow, file, number):
        (tmp_path / "w.json").write_text(json.dumps(workflow))
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        run = started("run", "w.json", start_new_session=True, **quiet)
        until(lambda: file.exists() and file.read_text(), 60)
        run.send_signal(number)
        run.wait(60)
        until(lambda: not marked_processes(f"{run.pid}-"))

    return end_run
