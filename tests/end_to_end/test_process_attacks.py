"""Attacks by a server's processes: what they leave behind, and what they find in their environment.

`tests/data/threat_rows.py` says which tests play which row.
"""

import json
from pathlib import Path

import pytest
from ended_processes import is_alive
from programs import script_server, until

pytestmark = pytest.mark.usefixtures("no_leftovers")
CLIENTS = Path(__file__).parents[1] / "client"
SECRET = "Zq7xK2mP9wL4vB8nT3cR6yH1jF5dG0sA7eU2iO9p"
SLEEPER = "import time; time.sleep(600)"
SPAWNS = """
child = subprocess.Popen([sys.executable, "-c", {sleeper!r}])
stubborn = subprocess.Popen([sys.executable, "-c", "import signal; signal.signal(15, 1);" {sleeper!r}])
apart = subprocess.Popen([sys.executable, "-c", {sleeper!r}], start_new_session=True)
reader, writer = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(writer, str(os.getpid()).encode())
        os.closerange(0, 3)
        time.sleep(600)
    os._exit(0)
daemon = int(os.read(reader, 20))
open({log!r}, "w").write(json.dumps([child.pid, stubborn.pid, apart.pid, daemon]))
reply({{"content": []}})
"""


@pytest.fixture
def server(configured):
    """Add the scripted server of the client's tests, which does what its script says, and sync it."""

    def add(script, **table):
        configured("odd", script_server(CLIENTS / "scripted.py", script, **table))

    return add


def test_row_14_what_a_server_starts_ends_with_the_run(server, pflow, workflow, tmp_path):
    """A child, one that ignores SIGTERM, one in a session of its own, and a daemon."""
    log = tmp_path / "pids"
    server(SPAWNS.format(log=str(log), sleeper=SLEEPER))
    ran = pflow("run", workflow(("a", "mcp-odd-act", {}), ("b", "shell", {"command": "exit 3"})))
    assert ran.exit_code == 1, ran.stderr
    pids = json.loads(log.read_text())
    assert len(pids) == 4
    until(lambda: not any(map(is_alive, pids)), 5)


def test_row_15_a_server_finds_only_what_its_config_names(server, pflow, workflow, tmp_path):
    server(
        "reply({'content': [], 'structuredContent': {'mine': dict(os.environ)}})",
        env={"MINE": "${GIVEN}", "PLAIN": "yes"},
    )
    secrets = ("OTHER_TOKEN", "AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY", "ODD", "LESSOPEN")
    planted = {**dict.fromkeys(secrets, SECRET), "GIVEN": "given", "https_proxy": "http://127.0.0.1:1"}
    planted["PYTHONSTARTUP"] = str(tmp_path / "startup.py")
    path = workflow(("a", "mcp-odd-act", {}), outputs={"seen": "${a.result.mine}"})
    ran = pflow("run", path, "--json", env=planted)
    assert ran.exit_code == 0, ran.stderr
    seen = ran.envelope["data"]["outputs"]["seen"]
    assert SECRET not in json.dumps(seen)
    assert set(seen) & set(planted) == {"https_proxy"}
    assert (seen["MINE"], seen["PLAIN"]) == ("given", "yes")
