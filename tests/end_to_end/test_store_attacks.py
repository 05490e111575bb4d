"""Attacks on what pflow keeps: files that others may write, and servers that are removed while they are used.

`tests/data/threat_rows.py` says which tests play which row.
"""

import json
import os
import re
import shlex
import subprocess
import tomllib
from concurrent.futures import ThreadPoolExecutor

import pytest
import stdio_server
from programs import script_server, until

from pflow_mcp_plugin.storage import write_atomic

OTHER = 12_345
"""A user and group that this machine does not know."""
READ_BY = {
    "config/mcp-servers.toml": ("mcp list", "run act.json", "config check"),
    "config/settings.json": ("settings list", "mcp test odd"),
    "data/servers/odd.json": ("mcp tools odd", "validate act.json"),
    "data/pins/odd.json": ("mcp diff odd", "mcp sync odd"),
    "data/approvals.json": ("mcp list", "run act.json"),
    "config/pflow.toml": ("run act.json", "validate act.json"),
    "data/workflows/kept.json": ("run kept", "workflow show kept"),
}
"""What decides what runs, or stands for an approval, and commands that read it."""


@pytest.fixture
def stored(scripted, pflow, pflow_home, workflow, tmp_path):
    """A home in which there is one of each."""
    scripted("act", env={"KEY": "${KEY:-none}"})
    workflow(("a", "mcp-odd-act", {})).rename(tmp_path / "act.json")
    write_atomic(pflow_home / "config/pflow.toml", b'[flows]\ndeny = [{ from = "shell", to = "echo" }]\n')
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"project": {"command": "true"}}}')
    for line in (
        "settings set KEY value",
        "mcp approve --project --yes",
        "workflow save act.json --name kept --description x",
    ):
        assert pflow(*line.split()).exit_code == 0


def refused(ran, place) -> str:
    """Return the command that mends what was refused."""
    assert ran.exit_code == 2, (ran.stdout, ran.stderr)
    said = ran.stdout + ran.stderr
    assert re.search(rf"{re.escape(str(place))}: (every user|it belongs to|the group)", said), said
    assert "Traceback" not in said
    assert "Upgrade or uninstall" not in said
    return re.search(r"then run: ((?:chmod|chown) [^\n)]+)", said)[1]


@pytest.mark.parametrize("name", READ_BY)
def test_row_60_a_file_that_others_may_write_is_used_by_no_command_until_it_is_mended(
    stored, pflow, pflow_home, name
):
    file = pflow_home / name
    for place in (file, file.parent):
        before = place.stat().st_mode
        place.chmod(0o666 if place == file else 0o777)
        for line in READ_BY[name]:
            command = refused(pflow(*line.split()), place)
        subprocess.run(shlex.split(command), check=True)
        assert place.stat().st_mode & 0o022 == 0
        ran = pflow(*READ_BY[name][0].split())
        assert ran.exit_code == 0, (ran.stdout, ran.stderr)
        place.chmod(before)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_row_60_a_file_that_belongs_to_others_is_used_by_no_command_until_it_is_mended(
    stored, pflow, pflow_home
):
    file = pflow_home / "config/settings.json"
    for place, user, group, mode in (
        (file, OTHER, 0, 0o600),
        (file, 0, OTHER, 0o660),
        (file.parent, OTHER, 0, 0o700),
        (pflow_home, OTHER, 0, 0o755),
    ):
        os.chown(place, user, group)
        place.chmod(mode)
        command = refused(pflow("settings", "list"), place)
        subprocess.run(shlex.split(command), check=True)
        assert pflow("settings", "list").exit_code == 0


def test_row_60_nothing_is_stored_where_others_may_write(pflow, pflow_home, tmp_path):
    (pflow_home / "config").mkdir(parents=True)
    (pflow_home / "config").chmod(0o777)
    for line in ("mcp add web -- true", "settings set KEY value"):
        refused(pflow(*line.split()), pflow_home / "config")
    assert [path.name for path in (pflow_home / "config").iterdir() if not path.name.endswith(".lock")] == []


def test_row_60_with_the_pins_gone_a_changed_server_is_not_taken_for_a_new_one(stored, pflow, pflow_home):
    """Whoever may write the folder may also remove what was approved."""
    (pflow_home / "data/pins/odd.json").unlink()
    (pflow_home / "data/pins").chmod(0o777)
    refused(pflow("mcp", "sync", "odd"), pflow_home / "data/pins")
    assert not (pflow_home / "data/pins/odd.json").exists()


def test_the_file_of_a_project_may_be_written_by_its_team(stored, pflow, tmp_path):
    """Its approval holds for its bytes."""
    folder = tmp_path / "project"
    folder.mkdir()
    folder.chmod(0o777)
    (tmp_path / ".mcp.json").rename(folder / ".mcp.json")
    (folder / ".mcp.json").chmod(0o666)
    assert pflow("mcp", "approve", "--project", "--yes", cwd=folder).exit_code == 0
    listed = pflow("mcp", "list", cwd=folder)
    assert (listed.exit_code, "project" in listed.stdout) == (0, True), listed.stderr


@pytest.fixture
def slow(pflow, tmp_path):
    """Add a server that names its tool once there is a file `go`."""

    def add(tool="act", **env):
        env = {"FOLDER": str(tmp_path), "TOOL": tool, **env}
        server = script_server(stdio_server.__file__, "ListsSlowly", env=env)
        added = pflow("mcp", "add", json.dumps({"odd": server}))
        assert added.exit_code == 0, added.stderr

    return add


@pytest.fixture
def syncing(started, tmp_path):
    """Start `pflow mcp sync odd` and wait until its server is asked for its tools."""

    def start():
        sync = started("mcp", "sync", "odd")
        until(lambda: list(tmp_path.glob("asked-*")) or sync.poll() is not None, 60)
        assert sync.poll() is None, sync.communicate()
        return sync

    return start


def ended(sync, tmp_path) -> str:
    """Let the server answer, and return what its sync wrote to stderr."""
    (tmp_path / "go").touch()
    _, stderr = sync.communicate(timeout=100)
    assert sync.returncode != 0
    assert "Traceback" not in stderr
    return stderr


def synced(pflow, **options) -> str:
    """Sync the server, and return what was said to stderr."""
    ran = pflow("mcp", "sync", "odd", **options)
    assert ran.exit_code == 0, ran.stderr
    return ran.stderr


def left(pflow_home) -> list[str]:
    """Return the files that hold anything of the server."""
    found = [path for path in pflow_home.rglob("*odd*") if path.is_file() and path.suffix != ".lock"]
    found += (pflow_home / "state/stderr/odd").rglob("*")
    return sorted({str(path.relative_to(pflow_home)) for path in found})


@pytest.mark.parametrize(("fails", "synced_before"), [("", True), ("yes", False)])
def test_row_61_nothing_is_left_of_a_server_that_is_removed_while_it_is_synced(
    slow, syncing, pflow, pflow_home, tmp_path, fails, synced_before
):
    slow(FAILS=fails)
    if synced_before:
        (tmp_path / "go").touch()
        synced(pflow)
        (tmp_path / "go").unlink()
        for asked in tmp_path.glob("asked-*"):
            asked.unlink()
    sync = syncing()
    assert pflow("mcp", "remove", "odd").exit_code == 0
    stderr = ended(sync, tmp_path)
    assert fails or "Server odd not configured" in stderr
    assert [path for path in left(pflow_home) if not path.startswith("state/stderr")] == []
    slow(FAILS="", TOOL="act")
    assert left(pflow_home) == []
    assert "never synced" in pflow("mcp", "list").stdout
    assert "First sync of server odd" in synced(pflow)


def test_row_61_a_server_that_took_the_name_meanwhile_gets_nothing_of_the_former(
    slow, syncing, pflow, pflow_home, tmp_path
):
    slow("evil")
    sync = syncing()
    assert pflow("mcp", "remove", "odd").exit_code == 0
    slow("good")
    assert "The config of server odd changed while it was synced" in ended(sync, tmp_path)
    assert left(pflow_home) == ["data/servers/odd.sync-failure"]
    assert "First sync of server odd" in synced(pflow)
    tools = pflow("mcp", "tools", "odd").stdout
    assert ("good" in tools, "evil" in tools) == (True, False)


def test_row_61_what_an_editor_left_is_not_for_another_server_of_its_name(slow, pflow, pflow_home, tmp_path):
    (tmp_path / "go").touch()
    slow()
    synced(pflow)
    slow()
    assert len(left(pflow_home)) == 2  # it is the same
    (pflow_home / "config/mcp-servers.toml").write_text("")
    assert len(left(pflow_home)) == 2
    slow("other")
    assert left(pflow_home) == []
    (pflow_home / "config/mcp-servers.toml").write_text("")
    assert pflow("mcp", "add", "odd", "--", "true").exit_code == 0
    assert left(pflow_home) == []


def test_row_61_removing_an_own_server_leaves_that_of_a_project_with_the_same_name(
    slow, pflow, pflow_home, tmp_path
):
    """What is removed are the own server's tools and pins."""
    (tmp_path / "go").touch()
    slow("theirs")
    table = tomllib.loads((pflow_home / "config/mcp-servers.toml").read_text())["mcpServers"]
    (pflow_home / "config/mcp-servers.toml").write_text("")
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": table}))
    assert pflow("mcp", "approve", "--project", "--yes", cwd=folder).exit_code == 0
    synced(pflow, cwd=folder)
    of_project = left(pflow_home)
    assert len(of_project) == 2
    slow("mine")
    synced(pflow, cwd=folder)
    assert len(left(pflow_home)) == 4
    assert pflow("mcp", "remove", "odd", cwd=folder).exit_code == 0
    assert left(pflow_home) == of_project
    assert "theirs" in pflow("mcp", "tools", "odd", cwd=folder).stdout


def test_row_61_removes_adds_and_syncs_at_once_leave_nothing_of_what_is_not_configured(
    slow, pflow, pflow_home, tmp_path
):
    """Whatever order they come in."""
    (tmp_path / "go").touch()
    slow()
    table = json.dumps(tomllib.loads((pflow_home / "config/mcp-servers.toml").read_text())["mcpServers"])
    lines = [("mcp", "sync", "odd"), ("mcp", "remove", "odd"), ("mcp", "add", table)] * 3
    with ThreadPoolExecutor(len(lines)) as threads:
        for ran in threads.map(lambda line: pflow(*line), lines):
            assert "Traceback" not in ran.stderr
            assert "locked for" not in ran.stderr
    if "odd" not in (pflow_home / "config/mcp-servers.toml").read_text():
        assert left(pflow_home) == []
    pflow("mcp", "remove", "odd")
    assert left(pflow_home) == []
