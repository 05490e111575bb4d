"""The file of a project: when it is used, how it is read, what it may say, what people are told of it."""

import json
import os
from pathlib import Path

import attrs
import pytest

from pflow_mcp_plugin.config.project_file import (
    LARGEST,
    ProjectFile,
    ProjectReading,
    duplicate_servers,
    notices,
    server_lines,
    server_notices,
    variables,
)
from pflow_mcp_plugin.contract import Paths, PflowError
from pflow_mcp_plugin.contract.problems import advice, fault
from pflow_mcp_plugin.storage import CorruptFile, StoreError

SAY = {"command": "say", "args": ["hello"]}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def paths(tmp_path):
    return Paths(**{name: tmp_path / "pflow" / name for name in ("config", "data", "state", "cache")})


@pytest.fixture
def asked(paths, folder):
    """The file as it is read if the user asked for it."""
    return ProjectFile(attrs.evolve(paths, project=folder))


@pytest.fixture
def project(paths, folder):
    return ProjectFile(paths)


def write(folder, *, root=None, **servers):
    document = {"mcpServers": servers} if root is None else root
    (folder / ".mcp.json").write_text(document if isinstance(document, str) else json.dumps(document))


def approve(project):
    content = project.content()
    project.approve(content, content.tables)


def test_without_a_file_nothing_is_read_or_written_and_that_is_said_if_it_was_asked_for(
    project, asked, paths, folder
):
    assert (project.reading().state, project.stamp()) == ("absent", "")
    assert project.offer(["say"]) is None
    (problem,) = asked.reading().problems
    assert problem.message == f"There is no .mcp.json in {folder}"
    assert not paths.data.exists()


def test_an_unapproved_file_is_not_opened(project, folder, paths):
    os.mkfifo(folder / ".mcp.json")  # to open it would wait without end
    reading = project.reading()
    assert (reading.state, reading.tables, reading.problems) == ("ignored", {}, ())
    assert project.stamp() == ""
    assert not paths.data.exists()


def test_an_approval_holds_in_its_folder_for_these_bytes(project, paths, folder, tmp_path):
    write(folder, say=SAY)
    approve(project)
    assert project.reading().state == "approved"
    assert project.reading() is project.reading()
    link = tmp_path / "link"
    link.symlink_to(folder)
    assert ProjectFile(attrs.evolve(paths, project=link)).reading().state == "approved"
    project.approve(project.content(), [])
    assert project.reading().tables == {}  # only the servers that were approved are used
    approve(project)
    approved = (folder / ".mcp.json").read_bytes()
    (tmp_path / ".mcp.json").write_bytes(approved)
    assert ProjectFile(attrs.evolve(paths, project=tmp_path)).reading().state == "asked"
    (folder / ".mcp.json").write_bytes(approved + b"\n")
    reading = project.reading()
    assert (reading.state, reading.tables) == ("changed", {})
    assert reading.problems[0].suggestion.endswith("pflow mcp approve --project")
    assert ProjectFile(attrs.evolve(paths, project=folder)).reading().state == "changed"
    (folder / ".mcp.json").write_bytes(approved)
    assert project.reading().state == "approved"


def test_each_project_has_an_approval_that_only_its_owner_reads_and_a_folder_for_its_tools(
    project, paths, folder, tmp_path
):
    other = tmp_path / "other"
    other.mkdir()
    tools = set()
    for place in (folder, other):
        write(place, say=SAY)
        file = ProjectFile(attrs.evolve(paths, project=place))
        approve(file)
        tools.add(file.reading().tool_folder)
    assert [it.is_relative_to(paths.data / "projects") for it in tools] == [True, True]
    assert project.reading().state == "approved"
    approvals = paths.data / "approvals.json"
    assert [*json.loads(approvals.read_text())["projects"]] == [str(folder), str(other)]
    assert approvals.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["{", '{"projects": []}', '{"projects": {"FOLDER": {"sha256": 1}}}'])
def test_damaged_approvals_approve_nothing(project, paths, folder, text):
    write(folder, say=SAY)
    paths.data.mkdir(parents=True)
    (paths.data / "approvals.json").write_text(text.replace("FOLDER", str(folder)))
    assert project.reading().state == "ignored"


def test_the_stamp_changes_with_the_file_its_approval_and_its_tools(project, folder):
    write(folder, say=SAY)
    stamps = [project.stamp()]
    approve(project)
    stamps.append(project.stamp())
    tools = project.reading().tool_folder
    tools.mkdir(parents=True)
    (tools / "say.json").write_text("{}")
    stamps.append(project.stamp())
    write(folder, say=SAY, other=SAY)
    stamps.append(project.stamp())
    assert stamps[0] == ""
    assert len(set(stamps)) == 4


def test_a_symbolic_link_is_not_followed_also_to_the_bytes_that_were_approved(project, asked, folder):
    write(folder, say=SAY)
    approve(project)
    (folder / ".mcp.json").rename(folder / "real.json")
    (folder / ".mcp.json").symlink_to("real.json")
    assert (project.reading().state, project.reading().tables) == ("changed", {})
    with pytest.raises(StoreError, match="is a symbolic link"):
        asked.content()
    reading = asked.reading()
    assert (reading.tables, reading.problems[0].severity) == ({}, "error")


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("made", "words"),
    [
        (os.mkfifo, "a named pipe"),
        (os.mkdir, "directory"),
        (lambda place: place.write_bytes(b" " * (LARGEST + 1)), "larger than 1 MiB"),
        (lambda place: None, "There is no"),
    ],
)
def test_pipes_folders_and_large_files_are_refused(asked, folder, made, words):
    made(folder / ".mcp.json")
    with pytest.raises(PflowError, match=words):
        asked.content()


@pytest.mark.parametrize("text", ["", "[]", "\xff", '{"a": 1e999}', "[" * 100_000])
def test_what_is_not_an_object_in_json_is_said_with_its_place(asked, folder, text):
    (folder / ".mcp.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(CorruptFile):
        asked.content()
    assert str(folder / ".mcp.json") in asked.reading().problems[0].message


@pytest.mark.parametrize(
    ("root", "message"),
    [
        ({"mcpServers": {"say": {**SAY, "x\x1b[2J": 1}}}, "a key has characters that are not visible"),
        ({"mcpServers": {"say": {**SAY, "auth": json.loads("[" * 120 + "]" * 120)}}}, "nested too deeply"),
    ],
)
def test_keys_that_people_cannot_see_and_deep_nesting_are_refused(asked, folder, root, message):
    write(folder, root=root)
    with pytest.raises(CorruptFile, match=message):
        asked.content()
    (problem,) = asked.reading().problems
    assert (asked.reading().state, problem.source) == ("asked", str(folder / ".mcp.json"))


@pytest.mark.parametrize(
    ("root", "message"),
    [
        ({"mcpServers": []}, "Must be an object of servers, not a list"),
        ({"servers": {"say": SAY}}, "It is missing"),
    ],
)
def test_another_form_is_an_error_and_not_mended(asked, folder, root, message):
    write(folder, root=root)
    problem = asked.reading().problems[0]
    assert (problem.path, problem.message, problem.severity) == ("mcpServers", message, "error")
    assert "pflow mcp import" in problem.suggestion
    assert problem.source == str(folder / ".mcp.json")


def test_spellings_of_other_clients_are_read_as_in_our_own_config(asked, folder):
    servers = {"a": {"type": "stdio", **SAY}, "b": {"type": "streamable-http"}}
    write(folder, root={"$schema": "x", "mcpServers": servers})
    reading = asked.reading()
    assert (reading.state, reading.problems) == ("asked", ())
    assert reading.tables == {"a": SAY, "b": {"type": "http"}}
    assert asked.stamp()


def test_a_project_cannot_decide_that_it_is_trusted_nor_have_a_name_that_ours_cannot_have(asked, folder):
    trusting = {"trust": "auto", "trust_readonly": True, "trust_idempotent": True, "insecure": True}
    write(folder, say={**SAY, **trusting})
    assert asked.reading().tables == {"say": SAY}
    told = [problem.path for problem in asked.reading().problems]
    assert told == [f"mcpServers.say.{key}" for key in trusting]
    write(folder, My_Server=SAY, **{"../x": SAY}, say=SAY, odd=1)
    assert asked.reading().tables == {"say": SAY, "odd": 1}
    assert [it.suggestion for it in asked.reading().problems] == ["Name it my-server", "Name it x"]


def test_an_offer_names_a_server_of_the_unapproved_file_and_says_if_it_changed(project, folder):
    write(folder, say=SAY)
    step = f"{folder / '.mcp.json'} has it; run: pflow mcp approve --project"
    assert project.offer(["other", "say"]) == ("say", step)
    assert project.offer(["other"]) is None
    approve(project)
    assert project.offer(["say"]) is None
    write(folder, say=SAY, more=SAY)
    assert "has it, but changed since it was approved" in project.offer(["say"])[1]
    (folder / ".mcp.json").write_text("{")
    assert project.offer(["say"]) is None


FILE, OWN = Path("/p/.mcp.json"), Path("/home/mcp-servers.toml")


def told(reading, **own):
    return [*notices(reading), *duplicate_servers(reading, OWN, own), *server_notices(reading, own)]


def shown(**table):
    return "\n".join(server_lines("x", table))


def test_everything_that_decides_what_is_started_is_shown_and_only_secrets_are_masked():
    args = ["--deep", "a b", "--key=abcDEF123", "--auth", "sh -c evil", "--token", "./evil.sh"]
    env = {"LD_PRELOAD": "./x.so", "GIT_ASKPASS": "./ask.sh", "API_KEY": "abcDEF123"}
    lines = shown(command="./run.sh", args=args, cwd="/else", env=env, call_timeout=3)
    assert lines.splitlines() == [
        "x (stdio)",
        "  runs      ./run.sh --deep 'a b' '--key=****' --auth 'sh -c evil' --token ./evil.sh",
        "  cwd       /else",
        "  env       LD_PRELOAD=./x.so",
        "  env       GIT_ASKPASS=./ask.sh",
        "  env       API_KEY=****",
        '  settings  {"call_timeout": 3}',
    ]


def test_everything_that_decides_what_is_reached_is_shown():
    lines = shown(
        type="http",
        url="https://user:secret@mcp.example.com/a?api_key=abc",
        headers={"x": "${A}", "Authorization": "Bearer abcdef"},
        auth={"type": "bearer", "token": "abcdef"},
    )
    assert lines.splitlines() == [
        "x (http)",
        "  url       https://****@mcp.example.com/a?api_key=****",
        "  header    x: ${A}",
        "  header    Authorization: ****",
        '  auth      {"type": "bearer", "token": "****"}',
        "  receives  the values of A, from the environment or your settings",
    ]


def test_what_is_not_visible_is_escaped():
    hidden = "a\u200bb\u202ec\U000e0041d\x1b[2Je\n"
    lines = shown(command="sh", args=["-c", f"true{hidden}"], env={"A": hidden})
    assert "a\\u200bb\\u202ec\\udb40\\udc41d\\u001b[2Je\\n" in lines
    assert all(line.isprintable() for line in lines.splitlines())
    assert "\\u0430pple.com" in shown(type="http", url="https://\u0430pple.com/")


def test_every_variable_is_named_wherever_the_table_refers_to_it():
    table = {
        "command": "${A}",
        "args": ["${B:-x} ${C}", "$${D}"],
        "env": {"E": "${F}"},
        "auth": {"type": "token_env", "token_env": "G"},
        "headers": {"x": "${A}"},
    }
    assert variables(table) == ["A", "B", "C", "F", "G"]


def test_a_server_of_the_users_own_wins_and_both_files_are_named():
    tables = {"x": {"command": "a"}, "y": {"command": "b"}}
    reading = ProjectReading(path=FILE, state="approved", tables=tables)
    (warning,) = told(reading, x={"command": "other"}, y={"command": "b", "call_timeout": 3})
    assert (warning.severity, warning.path) == ("warning", "mcpServers.x")
    assert warning.message == (f"Server x is in {OWN} and in {FILE}: the one in mcp-servers.toml is used")


def test_a_server_that_is_used_without_approval_is_shown_in_full():
    tables = {"x": {"command": "a\u200b", "env": {"B": "${C}"}}, "has-mistakes": {"command": 1}, "y": 1}
    (warning,) = told(ProjectReading(path=FILE, state="asked", tables=tables))
    assert "runs: 'a\\u200b'; env: B=${C}; receives: the values of C" in warning.message
    assert warning.suggestion == "To approve it: pflow mcp approve --project"


def test_problems_of_the_file_are_told_until_it_is_approved_and_name_it():
    problems = (advice("a", "odd"), fault("b", "wrong"))
    (warning,) = told(ProjectReading(path=FILE, state="asked", problems=problems))
    assert (warning.message, warning.severity) == (f"{FILE}: wrong", "warning")
    assert told(ProjectReading(path=FILE, state="approved", problems=problems)) == []
    changed = (advice("", f"{FILE} changed"),)
    assert told(ProjectReading(path=FILE, state="changed", problems=changed)) == [*changed]
