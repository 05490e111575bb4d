import os
import shutil
import stat
import tempfile
import threading
from pathlib import Path

import pytest
from special_paths import KINDS, special_path
from system_limits import files_of_at_most, ordinary_user
from workflow_parts import flow, step, trace_of

from pflow_mcp_plugin.contract import NodeSource, PflowError
from pflow_mcp_plugin.host.nodes.own_nodes import OwnNodes
from pflow_mcp_plugin.storage import write_regular


def test_echo_passes_its_message_on_with_its_type(bench, one):
    assert one("echo", message={"a": [1]}).outputs == {"message": {"a": [1]}}
    from_root = {"inputs": {"message": {}}, "nodes": [{"id": "echo"}]}
    assert bench.run(from_root, message="hi").outputs == {"message": "hi"}


def test_a_file_is_written_and_read_back_byte_for_byte(bench, one, tmp_path):
    assert not bench.host.registry.get("read-file").cacheable  # the file may be another one each time
    path, text = tmp_path / "new" / "a.txt", "first\r\nsecond\n\u00e9"
    written = one("write-file", file_path=path, content=text).outputs
    assert written == {"file_path": str(path), "size": 16}
    assert one("read-file", file_path=path).outputs == {"content": text, "file_path": str(path)}


def test_values_are_written_as_json_and_a_file_can_be_appended_to(one, tmp_path):
    for content in ({"a": [1]}, "b\n"):
        assert one("write-file", file_path=tmp_path / "a.json", content=content, append=True).success
    assert (tmp_path / "a.json").read_text() == '{\n  "a": [\n    1\n  ]\n}\nb\n'


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("/missing", {}, "No such file or directory"),
        ("", {}, "Is a directory"),
        ("/latin", {}, "it is not utf-8 text"),
        ("/latin", {"encoding": "utf-9"}, "unknown encoding utf-9"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_the_reason(refused, tmp_path, name, params, message):
    (tmp_path / "latin").write_bytes(b"\xe9")
    error = refused("read-file", file_path=f"{tmp_path}{name}", **params)
    assert error.message == f"Node n (read-file) failed: Cannot read {tmp_path}{name}: {message}"
    assert error.details["file_path"] == f"{tmp_path}{name}"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("node", "params"), [("read-file", {}), ("write-file", {"content": "x"})])
def test_what_is_no_regular_file_is_refused_unless_asked_for(refused, tmp_path, node, params, kind):
    with special_path(kind, tmp_path / "file") as path:
        error = refused(node, file_path=path, **params)
    assert "file: it is a " in error.message
    assert "not a regular file" in error.message
    hint = "Name a regular file" if kind == "socket" else "Set special_files to true if this is intended"
    assert error.suggestions == (hint,)


@pytest.mark.parametrize("kind", ["pipe", "pipe with a writer", "terminal"])
def test_a_special_file_is_read_for_as_long_as_the_timeout(refused, tmp_path, kind):
    with special_path(kind, tmp_path / "file") as path:
        error = refused("read-file", file_path=path, special_files=True, timeout=0.1)
    assert "it took longer than 0.1 seconds" in error.message


def test_an_endless_device_is_read_up_to_the_limit(refused):
    error = refused("read-file", file_path="/dev/zero", special_files=True, max_mb=2)
    assert "Cannot read /dev/zero: it is larger than 2 MiB" in error.message
    assert error.suggestions == ("Raise max_mb if this is intended",)


@pytest.mark.parametrize("params", [{"max_mb": 0}, {"timeout": -1}])
def test_a_limit_of_nothing_is_refused(bench, tmp_path, params):
    [(key, value)] = params.items()
    late = step("late", "transform", {"expression": f"`{value}`"})
    reads = step("n", "read-file", {"file_path": str(tmp_path), key: value})
    assert f"{key} of node n must be more than 0" in bench.host.runner.validate(flow(reads))[0].message
    reads["params"][key] = "${late.result}"
    assert f"parameter {key} must be more than 0" in bench.run(flow(late, reads)).error.message


def test_pipes_are_read_and_written_where_asked_for(one, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writing = threading.Thread(target=pipe.write_text, args=("text",))
    writing.start()
    assert one("read-file", file_path=pipe, special_files=True).outputs["content"] == "text"
    writing.join(10)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert one("write-file", file_path=pipe, content="more", special_files=True).outputs["size"] == 4
    assert os.read(reader, 10) == b"more"
    os.close(reader)


@pytest.mark.parametrize(("append", "retries"), [(False, 2), (True, None)])
def test_writing_is_tried_again_where_asked_for_but_not_appending(bench, tmp_path, append, retries):
    (tmp_path / "file").write_text("")
    params = {"file_path": str(tmp_path / "file" / "below"), "content": "x", "append": append}
    outcome = bench.run(flow(step("n", "write-file", params, retry={"max": 2, "wait": 0})))
    assert "Cannot write" in outcome.error.message
    assert trace_of(outcome)["steps"][0]["details"].get("retries") == retries


def test_a_retry_of_a_command_is_warned_of(bench):
    workflow = flow(step("n", "shell", {"command": ["true"]}, retry={"max": 1}))
    assert [problem.path for problem in bench.host.runner.validate(workflow)] == ["$.nodes[0].retry"]
    assert bench.host.registry.get("shell").to_dict()["retryable"] is False


def test_every_entry_fits_its_class(bench):
    source = OwnNodes()
    assert isinstance(source, NodeSource)
    for entry in source.entries():
        assert source.get(entry.node) is entry
        assert bench.host.registry.get(entry.node) == entry
        module = __import__(entry.module, fromlist=[entry.class_name])
        made = getattr(module, entry.class_name)()
        assert getattr(made, "max_retries", 1) == 1
    assert source.fingerprint() == OwnNodes().fingerprint()


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")


def write(bench, path, content="new", **params):
    bench.warnings.clear()
    return bench.run(flow(step("n", "write-file", {"file_path": str(path), "content": content, **params})))


def facts(path):
    there = path.stat()
    return stat.S_IMODE(there.st_mode), there.st_uid, there.st_gid


@pytest.fixture
def report(tmp_path):
    """A file that is there already, and beside which a test leaves no part of another."""
    file = tmp_path / "report"
    file.write_text("old")
    yield file
    assert [path.name for path in tmp_path.iterdir() if "report" in path.name] == ["report"]


@pytest.fixture
def open_folder():
    """A folder that every user can reach."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


HERE = (os.geteuid(), os.getegid())


@pytest.mark.parametrize(
    ("mode", "owner"),
    [
        *((mode, HERE) for mode in (0o600, 0o755)),
        *(pytest.param(0o2755, owner, marks=needs_root) for owner in ((12345, 54321), (0, 54321))),
    ],
)
def test_a_file_that_is_replaced_keeps_its_permissions_and_owner(bench, report, mode, owner):
    os.chown(report, *owner)
    report.chmod(mode)
    number = report.stat().st_ino
    assert write(bench, report).outputs["size"] == 3
    assert (report.read_text(), facts(report)) == ("new", (mode, *owner))
    assert report.stat().st_ino != number
    assert bench.warnings == []


def test_a_file_that_is_replaced_keeps_its_extended_attributes(bench, report):
    try:
        os.setxattr(report, "user.tag", b"blue")
    except OSError:
        pytest.skip("this file system has no extended attributes")
    assert write(bench, report).success
    assert (report.read_text(), os.getxattr(report, "user.tag")) == ("new", b"blue")


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_stays_a_link_and_its_target_is_replaced(bench, tmp_path, exists):
    target, link, further = tmp_path / "below" / "target", tmp_path / "link", tmp_path / "further"
    target.parent.mkdir()
    link.symlink_to("below/target")
    further.symlink_to(link)
    if exists:
        target.write_text("old")
        target.chmod(0o640)
    assert write(bench, further).success
    assert (further.readlink(), link.readlink()) == (link, Path("below/target"))
    assert target.read_text() == "new"
    assert not exists or facts(target)[0] == 0o640


@pytest.mark.parametrize("kind", ["read-file", "write-file", "copy-file"])
@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", " is empty"),
        ("~nobody-here/x", ": there is no home folder ~nobody-here"),
        ("a\0b", ": no path contains NUL"),
        ("\ud83d", " has the character '\\ud83d' at position 0, which UTF-8 cannot hold"),
    ],
)
def test_what_can_name_no_file_is_refused(bench, kind, path, message):
    key = "source" if kind == "copy-file" else "file_path"
    more = {"write-file": {"content": "new"}, "copy-file": {"destination": "b"}}.get(kind, {})
    error = bench.run(flow(step("n", kind, {key: path, **more}))).error
    assert error.message.endswith(f"parameter {key}{message}")
    assert (error.ran, bool(error.suggestions)) == ("not ran", True)


def test_neither_null_nor_text_that_is_not_unicode_is_written(bench, report):
    for content in ("a\udcff", {"a": "\ud83d"}):
        assert "which UTF-8 cannot hold" in write(bench, report, content).error.message
    with pytest.raises(PflowError, match="content of node n must be any value but null"):
        write(bench, report, None)
    given = flow(step("n", "write-file", {"file_path": str(report)}), inputs={"content": {"type": "any"}})
    assert "parameter content is null" in bench.run(given, content=None).error.message
    assert report.read_text() == "old"


def test_a_folder_its_path_and_a_link_that_leads_to_itself_are_refused(refused, tmp_path):
    for path, why in ((f"{tmp_path}", "Is a directory"), (f"{tmp_path}/reports/", "reports/ is a folder")):
        error = refused("write-file", file_path=path, content="new")
        assert why in error.message
        assert error.suggestions == ("Name a file in it",)
    assert list(tmp_path.glob("reports*")) == []
    (tmp_path / "link").symlink_to("link")
    error = refused("write-file", file_path=tmp_path / "link", content="new")
    assert "link: Too many levels of symbolic links" in error.message


def test_a_file_with_two_names_keeps_both(bench, report, tmp_path):
    (tmp_path / "other").hardlink_to(report)
    assert write(bench, report, "n").success
    assert (report.read_text(), (tmp_path / "other").read_text()) == ("n", "n")
    [warning] = [problem.message for problem in bench.warnings]
    assert warning.startswith(f"{report} was written in place: it has further names")


@pytest.mark.parametrize("content", ["new", "a new text that is longer than the old one"])
def test_a_writable_file_in_a_folder_that_is_not_is_written_in_place(open_folder, content):
    file = open_folder / "report"
    file.write_text("the old text")
    with ordinary_user() as (user, group):
        pass
    if os.geteuid() == 0:
        os.chown(file, user, group)
    open_folder.chmod(0o555)
    number = file.stat().st_ino
    with ordinary_user():
        reason = write_regular(file, content.encode())
    assert reason == "it cannot be replaced with its owner and permissions (permission denied)"
    assert (file.read_text(), file.stat().st_ino) == (content, number)


@needs_root
def test_a_file_whose_owner_cannot_be_kept_is_written_in_place(open_folder):
    file = open_folder / "report"
    file.write_text("the old text")
    file.chmod(0o666)
    open_folder.chmod(0o777)
    with ordinary_user():
        reason = write_regular(file, b"new")
    assert "(operation not permitted)" in reason
    assert (file.read_text(), facts(file)) == ("new", (0o666, 0, 0))
    assert [path.name for path in open_folder.iterdir()] == ["report"]
    file.chmod(0o444)
    with ordinary_user(), pytest.raises(PermissionError):
        write_regular(file, b"newer")
    assert file.read_text() == "new"


def test_a_file_may_have_the_longest_name_that_the_system_allows(bench, tmp_path):
    for content in ("one", "two"):
        assert write(bench, tmp_path / ("n" * 255), content).success
    assert (tmp_path / ("n" * 255)).read_text() == "two"


@pytest.mark.parametrize("append", [True, False])
def test_a_file_that_grows_too_large_for_the_system_stays_as_it_was(bench, report, append):
    with files_of_at_most(2 << 20):
        error = write(bench, report, "x" * (3 << 20), append=append).error
    assert "File too large" in error.message
    assert report.read_text() == "old"


def writes(folder, content):
    """The nodes that replace a file, append to another, and write a third."""
    return [
        step("n", "write-file", {"file_path": f"{folder}/{name}", "content": content, "append": name == "b"})
        for name in ("a", "b", "new")
    ]


@pytest.mark.parametrize("link", ["", ' && ln "$0/a" "$0/also"'], ids=["one name", "two"])
def test_a_full_disk_leaves_the_old_file(run_mounted, tmp_path, link):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f'mount -t tmpfs -o size=20k none "$0" && printf old | tee "$0/a" > "$0/b"{link}'
    errors, files, _ = run_mounted(mount, disk, writes(disk, "x" * 30_000), disk)
    assert ["No space left on device" in error for error in errors] == [True] * 3
    assert files == dict.fromkeys(["a", "also", "b"] if link else ["a", "b"], "old")


@needs_root
def test_a_file_that_is_mounted_into_a_container_is_written_in_place(run_mounted, tmp_path):
    file, shown = tmp_path / "a", tmp_path / "shown"
    file.write_text("host")
    shown.mkdir()
    (shown / "a").touch()
    mount = 'mount --bind "$0/a" "$0/shown/a"'
    errors, _, stderr = run_mounted(mount, tmp_path, writes(shown, "xxx"), shown, user=False)
    assert (errors, file.read_text()) == ([None] * 3, "xxx")
    assert "a was written in place: it cannot be replaced" in stderr
    assert "busy" in stderr


def test_a_file_that_is_named_by_its_descriptor_stays_the_same_file(bench, report):
    with report.open("w") as opened:
        assert write(bench, f"/proc/self/fd/{opened.fileno()}").success
        assert os.fstat(opened.fileno()).st_ino == report.stat().st_ino
    assert report.read_text() == "new"
    assert bench.warnings == []


def test_what_a_killed_writer_of_the_same_file_left_is_removed(bench, tmp_path):
    left, other = (tmp_path / f".{name}.999999999-abc123.tmp" for name in ("report", "other"))
    left.touch()
    other.touch()
    assert write(bench, tmp_path / "report").success
    assert (left.exists(), other.exists()) == (False, True)


@pytest.mark.parametrize(
    "name",
    [
        "config/mcp-servers.toml",
        "data/pins/a.json",
        "state/artifacts/../runs/open/a.db",
        "cache/results/a",
    ],
)
@pytest.mark.parametrize("special", [False, True])
def test_no_run_writes_what_decides_what_pflow_runs_and_approves(bench, tmp_path, name, special):
    paths = bench.host.paths
    folder, _, rest = name.partition("/")
    file = getattr(paths, folder) / rest
    link = tmp_path / "link"
    link.symlink_to(file)
    for path in (file, link):
        outcome = write(bench, path, special_files=special)
        assert f"Cannot write {path}: pflow keeps its own files in" in outcome.error.message
        assert not file.exists()
