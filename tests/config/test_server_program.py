"""The program that starts a server: a warning before the start where it is missing."""

import sys

import pytest
from system_limits import ordinary_user

from pflow_mcp_plugin.config.server_schema import advise, find_program, kept_program
from pflow_mcp_plugin.errors import ConnectionFailed
from pflow_mcp_plugin.types import Server


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """A program `acme` in a folder that is not on PATH."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    file = tmp_path / "programs" / "acme"
    file.parent.mkdir()
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    return file


def test_a_program_on_the_path_of_its_server_is_found(tool):
    assert advise(Server(name="a", command="acme"))
    for path in (str(tool.parent), f"{tool.parent}:${{PATH}}", f"${{NOT_SET:-{tool.parent}}}"):
        assert advise(Server(name="a", command="acme", env={"PATH": path})) is None


def test_what_path_lacks_is_looked_for_beside_the_running_python_and_where_it_was(tool, monkeypatch):
    server, short, other = (
        Server(name="a", command="acme"),
        {"PATH": "/usr/bin"},
        str(tool.with_name("other")),
    )
    assert find_program(server, short, str(tool)) == str(tool)
    for known in ("", other):
        with pytest.raises(ConnectionFailed, match="Command not found: acme"):
            find_program(server, short, known)
    monkeypatch.setattr(sys, "executable", other)
    assert find_program(server, short) == str(tool)
    newer = tool.parents[1] / "acme"
    tool.replace(newer)
    tool.write_text("")  # there, but not to be run
    assert find_program(server, {"PATH": str(newer.parent)}, other) == str(newer)
    with pytest.raises(ConnectionFailed, match="Command not found: acme"):
        find_program(server, short)


def test_what_is_kept_is_no_path_from_the_current_folder(tool, monkeypatch):
    monkeypatch.chdir(tool.parents[1])
    for path in (tool.parent.name, f"./{tool.parent.name}"):
        assert kept_program(Server(name="a", command="acme", env={"PATH": path}), "") == str(tool)
    assert kept_program(Server(name="a", command="acme"), "/before/acme") == "/before/acme"
    assert kept_program(Server(name="a", command="./acme"), "/before/acme") == ""


def test_a_path_is_looked_for_in_the_working_folder_of_its_server(tool):
    folder = str(tool.parent)
    assert advise(Server(name="a", command="./acme", cwd=folder)) is None
    assert advise(Server(name="a", command="${HOME}/programs/acme")) is None
    assert advise(Server(name="a", command="./other", cwd=folder)).suggestion == "Correct the path in command"
    assert "does not exist" in advise(Server(name="a", command="./acme", cwd=f"{folder}/none")).message


def test_a_file_that_is_not_executable_is_named(tool):
    tool.chmod(0o644)
    assert advise(Server(name="a", command=str(tool))).suggestion == f"chmod +x {tool}"


def test_a_folder_that_may_not_be_entered_is_named(tool, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tmp_path.chmod(0o755)
    tool.parent.chmod(0o600)
    for server in (
        Server(name="a", command="programs/acme"),
        Server(name="a", command="./acme", cwd="programs/x"),
    ):
        with ordinary_user():
            assert advise(server).suggestion == "Correct the permissions of programs"


@pytest.mark.parametrize(
    "server",
    [
        Server(name="a", transport="http", url="https://example.com/mcp"),
        Server(name="a", command="${NOT_SET}"),
        Server(name="a", command="acme", env={"PATH": "${NOT_SET}"}),
        Server(name="a", command="./acme", cwd="${NOT_SET}"),
    ],
)
def test_what_only_a_start_can_know_is_not_judged(tool, server):
    assert advise(server) is None
