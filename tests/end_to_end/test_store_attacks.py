"""Attacks on what pflow keeps: files that others may write, and servers that are removed while they are used.

`tests/data/threat_rows.py` says which tests play which row.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest

OTHER = 12_345
"""A user and group that this machine does not know."""
READ_BY = {
    "config/mcp-servers.toml": (
        ("mcp", "list"),
        ("mcp", "sync", "odd"),
        ("run", "act.json"),
        ("config", "check"),
    ),
    "config/settings.json": (("settings", "list"), ("mcp", "test", "odd"), ("config", "check")),
    "data/servers/odd.json": (("mcp", "tools", "odd"), ("validate", "act.json"), ("config", "check")),
    "data/pins/odd.json": (("mcp", "diff", "odd"), ("mcp", "sync", "odd"), ("config", "check")),
    "data/approvals.json": (("mcp", "list"), ("run", "act.json"), ("config", "check")),
    "data/workflows/kept.json": (("run", "kept"), ("workflow", "show", "kept")),
}
"""What decides what runs, or stands for an approval, and commands that read it."""


@pytest.fixture
def stored(scripted, pflow, workflow, tmp_path):
    """A home in which there is one of each."""
    scripted("act", env={"KEY": "${KEY:-none}"})
    workflow(("a", "mcp-odd-act", {})).rename(tmp_path / "act.json")
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"project": {"command": "true"}}}')
    for line in (
        ("settings", "set", "KEY", "value"),
        ("mcp", "approve", "--project", "--yes"),
        ("workflow", "save", "act.json", "--name", "kept", "--description", "x"),
    ):
        assert pflow(*line).exit_code == 0


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
    for place, mode in (
        (file, 0o666),
        (file.parent, 0o777),
        (file.parent.parent, 0o777),
        (pflow_home, 0o777),
    ):
        before = place.stat().st_mode
        place.chmod(mode)
        for line in READ_BY[name]:
            command = refused(pflow(*line), place)
        subprocess.run(shlex.split(command), check=True)
        assert place.stat().st_mode & 0o022 == 0
        for line in READ_BY[name]:
            ran = pflow(*line)
            assert ran.exit_code == 0, (line, ran.stdout, ran.stderr)
        place.chmod(before)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
@pytest.mark.parametrize("name", READ_BY)
def test_row_60_a_file_that_belongs_to_others_is_used_by_no_command_until_it_is_mended(
    stored, pflow, pflow_home, name
):
    file = pflow_home / name
    for place, user, group, mode in (
        (file, OTHER, 0, 0o600),
        (file, 0, OTHER, 0o660),
        (file.parent, OTHER, 0, 0o700),
        (file.parent, 0, OTHER, 0o770),
        (pflow_home, OTHER, 0, 0o755),
    ):
        os.chown(place, user, group)
        place.chmod(mode)
        command = refused(pflow(*READ_BY[name][0]), place)
        subprocess.run(shlex.split(command), check=True)
        assert pflow(*READ_BY[name][0]).exit_code == 0


def test_row_60_nothing_is_stored_where_others_may_write(pflow, pflow_home, tmp_path):
    (pflow_home / "config").mkdir(parents=True)
    (pflow_home / "config").chmod(0o777)
    for line in (("mcp", "add", "web", "--", "true"), ("settings", "set", "KEY", "value")):
        refused(pflow(*line), pflow_home / "config")
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


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root may become another user"
)
@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077])
def test_a_user_needs_no_chmod_whatever_the_umask_and_with_a_config_of_roots(stored, pflow_home, umask):
    """What pflow itself wrote is used, and so is a config that the administrator keeps."""
    for path in (pflow_home, *pflow_home.rglob("*")):
        os.chown(path, OTHER, OTHER)
    os.chown(pflow_home / "config/mcp-servers.toml", 0, 0)
    (pflow_home / "config/mcp-servers.toml").chmod(0o644)
    new = pflow_home / "new"
    identity = [f"--reuid={OTHER}", f"--regid={OTHER}", "--clear-groups"]
    search = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    for home, line in (
        (pflow_home, ("mcp", "tools", "odd")),
        (pflow_home, ("mcp", "diff", "odd")),
        (pflow_home, ("settings", "set", "A", "b")),
        (pflow_home, ("workflow", "show", "kept")),
        (new, ("mcp", "add", "web", "--", "true")),
        (new, ("settings", "set", "A", "b")),
        (new, ("mcp", "list")),
        (new, ("config", "check")),
        (new, ("mcp", "remove", "web")),
    ):
        done = subprocess.run(
            ["setpriv", *identity, *search, sys.executable, "-P", "-m", "pflow_mcp_plugin", *line],
            env={**os.environ, "PFLOW_HOME": str(home), "HOME": str(pflow_home)},
            cwd="/",
            umask=umask,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, (line, done.stderr)
