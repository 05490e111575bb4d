import errno
import os
import shutil
import socket
import stat
import subprocess
import tempfile
from pathlib import Path
from unittest.mock import Mock

import pytest
from system_limits import ordinary_user
from workflow_parts import edge, flow, step

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.nodes import file_system_nodes


def tree(folder):
    """Return what is in a folder: names with contents, links with what they lead to."""
    return {
        str(path.relative_to(folder)): str(path.readlink())
        if path.is_symlink()
        else (None if path.is_dir() else path.read_text())
        for path in sorted(folder.rglob("*"))
    }


@pytest.mark.parametrize("has_links", [True, False])
@pytest.mark.parametrize("what", ["file", "link", "folder"])
@pytest.mark.parametrize("kind", [file_system_nodes.CopyFile, file_system_nodes.MoveFile])
def test_a_name_that_another_process_takes_meanwhile_is_not_replaced(
    tmp_path, monkeypatch, kind, what, has_links
):
    source, taken = tmp_path / "source", tmp_path / "out" / "report"
    {"file": source.touch, "link": lambda: source.symlink_to("x"), "folder": source.mkdir}[what]()
    if not has_links:
        monkeypatch.setattr(os, "link", Mock(side_effect=PermissionError(errno.EPERM, "no hard links")))
    node = kind()
    node.set_params({"source": str(source), "destination": str(taken)})
    given = node.prep({})
    before = file_system_nodes.sweep, file_system_nodes._size

    def other(*arguments):
        if what == "folder":
            taken.mkdir(exist_ok=True)
            (taken / "mine").touch()
        else:
            taken.write_text("mine")
        return before[len(arguments) == 1](*arguments)

    monkeypatch.setattr(file_system_nodes, "sweep" if kind is file_system_nodes.CopyFile else "_size", other)
    with pytest.raises(PflowError, match="exists already") as caught:
        node.exec(given)
    assert caught.value.ran == "not ran"
    assert os.path.lexists(source)
    assert list(taken.iterdir()) == [taken / "mine"] if what == "folder" else taken.read_text() == "mine"


@pytest.fixture
def shelf(tmp_path):
    """A folder with files, a folder, hidden things, and links."""
    folder = tmp_path / "shelf"
    (folder / "sub" / "deep").mkdir(parents=True)
    (folder / ".git").mkdir()
    for name in ("b.csv", "a.csv", "note.txt", "sub/c.csv", "sub/deep/d.csv", ".hidden.csv", ".git/e.csv"):
        (folder / name).write_text(name)
    (folder / "link.csv").symlink_to("a.csv")
    (folder / "lost.csv").symlink_to("nowhere")
    (folder / "sub" / "loop").symlink_to("..")
    return folder


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.csv", ["a.csv", "b.csv", "link.csv"]),
        ("**/*.csv", ["a.csv", "b.csv", "link.csv", "sub/c.csv", "sub/deep/d.csv"]),
        ("**", ["a.csv", "b.csv", "link.csv", "note.txt", "sub/c.csv", "sub/deep/d.csv"]),
        (".*", [".hidden.csv"]),
        ("**/.git/*", [".git/e.csv"]),
        ("s?b/[cd].csv", ["sub/c.csv"]),
        ("a.csv/*", []),
        ("[!", []),
    ],
)
def test_a_pattern_finds_files_sorted_by_path(one, shelf, pattern, found):
    outputs = one("list-files", pattern=pattern, folder=shelf).outputs
    assert [file["path"] for file in outputs["files"]] == [f"{shelf}/{name}" for name in found]
    assert outputs["count"] == len(found)


def test_a_file_is_listed_with_its_size_and_time(one, shelf, monkeypatch):
    os.utime(shelf / "a.csv", (1_000_000_000, 1_000_000_000))
    monkeypatch.chdir(shelf)
    [file] = one("list-files", pattern="a.csv").outputs["files"]
    assert file == {"path": "a.csv", "name": "a.csv", "size": 5, "modified": "2001-09-09T01:46:40Z"}
    [file] = one("list-files", pattern=f"{shelf}/[a].csv", folder="/no/such").outputs["files"]
    assert file["path"] == f"{shelf}/a.csv"


def test_a_folder_is_no_pattern_and_its_files_are_read_by_the_next_node(bench, tmp_path):
    folder = tmp_path / "[x]*"
    folder.mkdir()
    (folder / "a").write_text("content")
    listing = step("list", "list-files", {"pattern": "*", "folder": str(folder)})
    reading = step("read", "read-file", {"file_path": "${list.files[0].path}"})
    assert bench.run(flow(listing, reading)).outputs["content"] == "content"


@pytest.mark.parametrize(
    ("params", "message", "advice"),
    [
        ({"pattern": "*", "folder": "shef"}, "shef: it does not exist", "Did you mean shelf?"),
        ({"pattern": "*", "folder": "shelf/a.csv"}, "it is not a folder", "Name a folder"),
        ({"pattern": "", "folder": "shelf"}, "parameter pattern is empty", "Write *"),
        ({"pattern": "*\0/*", "folder": "shelf\0"}, "null", "Check"),
    ],
)
def test_what_cannot_be_listed_says_why(refused, shelf, monkeypatch, params, message, advice):
    monkeypatch.chdir(shelf.parent)
    error = refused("list-files", **params)
    assert message in error.message
    assert not error.suggestions or error.suggestions[0].startswith(advice)


def test_a_deleted_folder_is_not_an_empty_one(refused, shelf, monkeypatch):
    (shelf / "gone").mkdir()
    monkeypatch.chdir(shelf / "gone")
    (shelf / "gone").rmdir()
    assert "no such file" in refused("list-files", pattern="*").message
    error = refused("write-file", file_path="a", content="b")
    assert (error.message, error.ran) == (
        "Node n (write-file) failed: The current folder was deleted",
        "not ran",
    )


def test_too_many_files_are_an_error(refused, shelf, monkeypatch):
    monkeypatch.setattr(file_system_nodes, "MOST_FILES", 4)
    assert "more than 4 files match **/*" in refused("list-files", pattern="**/*", folder=shelf).message


def test_a_time_beyond_the_calendar_is_empty(one, shelf):
    try:
        os.utime(shelf / "a.csv", (1 << 40, 1 << 40))
    except OSError:
        return
    [file] = one("list-files", pattern="a.csv", folder=shelf).outputs["files"]
    assert file["modified"] == "" or file["modified"] > "2100"


@pytest.mark.parametrize("kind", ["copy-file", "move-file"])
@pytest.mark.parametrize("into", ["made/sub/new.csv", "sub", "made/"])
def test_a_file_goes_to_a_path_or_into_a_folder(one, shelf, kind, into):
    (shelf / "a.csv").chmod(0o640)
    os.utime(shelf / "a.csv", (1_000_000_000, 1_000_000_000))
    outputs = one(kind, source=shelf / "a.csv", destination=f"{shelf}/{into}").outputs
    target = shelf / (into if into.endswith(".csv") else f"{into.rstrip('/')}/a.csv")
    assert outputs == {"file_path": str(target), "size": 5}
    status = target.stat()
    assert (target.read_text(), stat.S_IMODE(status.st_mode), status.st_mtime) == ("a.csv", 0o640, 1e9)
    assert (shelf / "a.csv").exists() == (kind == "copy-file")


@pytest.mark.parametrize("kind", ["copy-file", "move-file"])
def test_a_folder_goes_with_all_that_is_in_it(one, shelf, tmp_path, kind):
    before = tree(shelf)
    outputs = one(kind, source=f"{shelf}/", destination=tmp_path / "other").outputs
    assert tree(tmp_path / "other") == before
    assert outputs["file_path"] == str(tmp_path / "other")
    assert tree(shelf) == (before if kind == "copy-file" else {})
    assert shelf.exists() == (kind == "copy-file")


@pytest.mark.parametrize("kind", ["copy-file", "move-file"])
@pytest.mark.parametrize("name", ["lost.csv", "sub/loop"])
def test_a_link_itself_is_transferred(one, shelf, tmp_path, kind, name):
    leads_to = (shelf / name).readlink()
    assert one(kind, source=shelf / name, destination=tmp_path / "l").success
    assert (tmp_path / "l").readlink() == leads_to
    assert (shelf / "a.csv").read_text() == "a.csv"


@pytest.mark.parametrize("kind", ["copy-file", "move-file"])
@pytest.mark.parametrize("name", ["b.csv", "lost.csv"])
def test_what_is_there_is_replaced_only_if_that_is_asked_for(one, refused, shelf, kind, name):
    error = refused(kind, source=shelf / "a.csv", destination=shelf / name)
    assert f"{shelf}/{name} exists already" in error.message
    assert "Set overwrite to true" in error.suggestions[0]
    assert error.ran == "not ran"
    assert one(kind, source=shelf / "a.csv", destination=shelf / name, overwrite=True).success
    assert (shelf / name).read_text() == "a.csv"
    assert not (shelf / name).is_symlink()
    assert not (shelf / "nowhere").exists()


@pytest.mark.parametrize("kind", ["copy-file", "move-file"])
@pytest.mark.parametrize(
    ("source", "destination", "message"),
    [
        ("a.csv", "a.csv", "is the same file"),
        ("a.csv", "link.csv", "is the same file"),
        ("a.csv", "twin.csv", "is the same file"),
        ("sub", "sub/new/x", "is inside of it"),
        ("sub", "sub/loop/sub/y", "is inside of it"),
        ("sub", "dest", "dest/sub exists already"),
        ("socket", "x", "it is a socket"),
        ("a.csv", "pipe", "it is a named pipe"),
        ("a.cvs", "x", "it does not exist"),
        ("sup/c.csv", "x", "sup does not exist"),
        ("a.csv", "b.csv/x", "file exists"),
        ("a.csv", "n" * 300, "ile name too long"),
        ("a\0.csv", "x", "NUL"),
        (None, "x", "is empty"),
    ],
)
def test_what_must_not_be_transferred_is_left_alone(refused, shelf, kind, source, destination, message):
    (shelf / "twin.csv").hardlink_to(shelf / "a.csv")
    (shelf / "dest" / "sub").mkdir(parents=True)
    os.mkfifo(shelf / "pipe")
    here = Path.cwd()
    os.chdir(shelf)  # the name of a socket is short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
    os.chdir(here)
    before = sorted(shelf.rglob("*"))
    paths = ["" if path is None else f"{shelf}/{path}" for path in (source, destination)]
    error = refused(kind, source=paths[0], destination=paths[1], overwrite=True)
    assert message in error.message
    assert error.ran == "not ran" or error.retryable
    assert sorted(shelf.rglob("*")) == before
    assert (shelf / "a.csv").read_text() == "a.csv"
    if source == "a.cvs":
        assert error.suggestions[0].startswith("Did you mean a.csv")
    if source == "sup/c.csv":
        assert error.suggestions == ("Did you mean sub?",)


def test_a_pipe_inside_of_a_folder_leaves_no_part_of_a_copy(refused, shelf, tmp_path):
    os.mkfifo(shelf / "sub" / "pipe")
    error = refused("copy-file", source=shelf, destination=tmp_path / "other")
    assert f"it is a named pipe, not a regular file: '{shelf}/sub/pipe'" in error.message
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "home") == ["shelf"]


def test_a_full_disk_leaves_nothing_half_copied_and_every_source(run_mounted, tmp_path):
    """Another file system, too: a move copies there."""
    source, disk = tmp_path / "source", tmp_path / "disk"
    (source / "tree").mkdir(parents=True)
    disk.mkdir()
    for name in ("big", "tree/a", "tree/b"):
        (source / name).write_bytes(b"x" * 300_000)
    nodes = [
        step("n", kind, {"source": f"{source}/{name}", "destination": f"{disk}/{name}", "overwrite": True})
        for kind in ("copy-file", "move-file")
        for name in ("big", "tree")
    ]
    mount = 'mount -t tmpfs -o size=256k none "$0" && printf old > "$0/big"'
    errors, files, _ = run_mounted(mount, disk, nodes, disk)
    assert ["no space left on device" in error.lower() for error in errors] == [True] * 4
    assert files == {"big": "old"}
    assert sorted(path.name for path in source.rglob("*")) == ["a", "b", "big", "tree"]


def test_a_move_to_another_file_system_copies_and_removes(one, shelf, monkeypatch):
    other = Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == shelf.stat().st_dev:
        pytest.skip("there they work")
    target, before = other / f"pflow-{os.getpid()}-{os.urandom(4).hex()}", tree(shelf)
    try:
        assert one("move-file", source=shelf, destination=target).success
        assert (tree(target), shelf.exists()) == (before, False)
        assert one("move-file", source=target / "a.csv", destination=shelf).outputs["size"] == 5
        assert (shelf.read_text(), (target / "a.csv").exists()) == ("a.csv", False)
        assert one("move-file", source=target / "sub/loop", destination=shelf, overwrite=True).success
        assert (str(shelf.readlink()), (target / "sub/loop").is_symlink()) == ("..", False)
    finally:
        shutil.rmtree(target, ignore_errors=True)


def test_what_a_killed_copy_left_is_removed_by_the_next_one(one, shelf):
    dead = subprocess.Popen(["true"])
    dead.wait()
    left = shelf / f".new.{dead.pid}-0a.tmp"
    (left / "part").mkdir(parents=True)
    assert one("copy-file", source=shelf / "sub", destination=shelf / "new").success
    assert not left.exists()


@pytest.mark.parametrize("name", ["a.csv", "link.csv", "lost.csv"])
def test_a_file_or_a_link_is_deleted(one, shelf, name):
    outputs = one("delete-file", file_path=shelf / name).outputs
    assert outputs == {"file_path": str(shelf / name), "deleted": True}
    assert not os.path.lexists(shelf / name)
    assert (shelf / "b.csv").exists()
    assert name == "a.csv" or (shelf / "a.csv").exists()


def test_a_folder_is_deleted_only_if_that_is_asked_for_and_links_are_not_followed(
    one, refused, shelf, tmp_path
):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("kept")
    (shelf / "out").symlink_to(tmp_path / "kept")
    error = refused("delete-file", file_path=shelf)
    assert ("it is a folder" in error.message, error.ran) == (True, "not ran")
    assert one("delete-file", file_path=f"{shelf}/out/", recursive=True).success
    (shelf / "out").symlink_to(tmp_path / "kept")
    assert one("delete-file", file_path=shelf, recursive=True).outputs["deleted"]
    assert not shelf.exists()
    assert (tmp_path / "kept" / "file").read_text() == "kept"


def test_what_does_not_exist_may_be_deleted_if_that_is_asked_for(one, refused, shelf):
    assert refused("delete-file", file_path=shelf / "b.cvs").suggestions[0].startswith("Did you mean b.csv")
    for name in ("b.cvs", "none/x", "a.csv/x"):
        outputs = one("delete-file", file_path=shelf / name, missing_ok=True).outputs
        assert outputs["deleted"] is False
    for name, message in (("n" * 300, "too long"), ("", "is empty")):
        assert message in refused("delete-file", file_path=name, missing_ok=True, recursive=True).message


@pytest.mark.parametrize("kind", ["delete-file", "move-file"])
def test_neither_home_nor_the_current_folder_nor_the_root_is_removed(refused, shelf, monkeypatch, kind):
    home = shelf / "users" / "ada"
    home.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(shelf / "sub" / "deep")
    plain = ("/", "//", "~", "~/", "..", ".", "loop/../..")
    for path in (*plain, f"{shelf}", f"{shelf}/users", f"{home}/../ada/."):
        params = {"file_path": path, "recursive": True}
        if kind == "move-file":
            params = {"source": path, "destination": str(shelf.parent / "moved")}
        assert refused(kind, **params).ran == "not ran"
    assert home.exists()
    assert (shelf / "sub" / "deep" / "d.csv").exists()


@pytest.mark.parametrize(
    ("kind", "folder"), [("copy-file", "config"), ("move-file", "state"), ("delete-file", "cache")]
)
def test_pflows_own_files_are_neither_replaced_nor_removed(
    one, refused, bench, pflow_home, shelf, kind, folder
):
    config = getattr(bench.host.paths, folder)
    config.mkdir(parents=True, exist_ok=True)
    servers, link, way = config / "mcp-servers.toml", config / "linked.toml", shelf / "way"
    servers.write_text("")
    link.symlink_to(shelf / "a.csv")
    way.symlink_to(config)
    removed = [config, pflow_home, link, servers]
    replaced = [config, config / "new.toml", link, way, way / "mcp-servers.toml"]
    to, over = {"destination": shelf / "new"}, {"source": shelf / "a.csv", "overwrite": True}
    onto = [{**over, "destination": path} for path in replaced]
    refusals = {
        "delete-file": [{"file_path": path, "recursive": True} for path in removed],
        "move-file": [*({"source": path, **to} for path in removed), *onto],
        "copy-file": onto,
    }
    for params in refusals[kind]:
        assert "pflow keeps its own files in" in refused(kind, **params).message
        assert servers.read_text() == ""
        assert link.is_symlink()
    assert not (config / "new.toml").exists()
    assert one("delete-file", file_path=way).success


def test_a_file_that_a_run_handed_on_can_be_moved(one, bench, shelf):
    made = bench.host.paths.state / "artifacts" / "20261126-161305-eed34d14" / "picture.png"
    made.parent.mkdir(parents=True)
    made.write_text("pixels")
    assert one("move-file", source=made, destination=shelf / "picture.png").success
    assert (shelf / "picture.png").read_text() == "pixels"


@pytest.mark.parametrize(
    ("node", "params"),
    [
        (file_system_nodes.CopyFile, {"source": "/etc/passwd", "destination": "new"}),
        (file_system_nodes.MoveFile, {"source": "a.csv", "destination": "/tmp/moved.csv"}),
        (file_system_nodes.DeleteFile, {"file_path": "sub", "recursive": True}),
    ],
)
def test_a_folder_that_may_not_be_written_keeps_everything(node, params, monkeypatch):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "sub").mkdir()
        (folder / "a.csv").write_text("a")
        folder.chmod(0o555)
        monkeypatch.chdir(folder)
        made = node()
        made.set_params({**params, "__node_id__": "n"})
        with ordinary_user(), pytest.raises(PflowError, match="permission denied"):
            made.run({})
        assert tree(folder) == {"a.csv": "a", "sub": None}
        folder.chmod(0o755)


def test_a_failure_on_purpose_has_its_message_and_kind(bench):
    guard = step("guard", "fail", {"message": "Too many: ${rows}", "kind": "config"})
    error = bench.run(flow(guard, inputs={"rows": {}}), rows=[1]).error
    assert (error.message, error.kind) == ("Node guard (fail) failed: Too many: [1]", "config")
    assert error.exit_code == 2
    guard["params"]["kind"] = "interrupted"  # which only pflow may say
    with pytest.raises(PflowError, match="Parameter kind of node guard must be one of"):
        bench.run(flow(guard, inputs={"rows": {}}), rows=[1])


def test_a_failure_on_purpose_routes_is_caught_in_batches_and_is_never_retried(bench):
    batch = {"items": [1, 2], "as": "n", "error_handling": "continue"}
    workflow = flow(
        step("each", "fail", {"message": {"n": "${n}"}}, batch=batch),
        step("guard", "fail", {"message": "m"}, retry={"max": 3, "wait": 60}),
        step("after", "echo", {"message": "${guard.error}"}),
        edges=[edge("each", "guard"), edge("guard", "after", "error")],
    )
    outcome = bench.run(workflow)
    assert outcome.error is None
    assert outcome.outputs["message"] == "m"
    assert any("retrying it would change nothing" in str(warning) for warning in bench.warnings)


def test_what_is_deleted_is_never_taken_from_the_shared_store(bench, shelf):
    workflow = flow(step("n", "delete-file", {}), inputs={"file_path": {"type": "str"}})
    error = bench.run(workflow, file_path=str(shelf / "a.csv")).error
    assert "parameter file_path is missing" in error.message
    assert (shelf / "a.csv").exists()
