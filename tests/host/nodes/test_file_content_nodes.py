import os
import shutil
import stat
import tempfile
from pathlib import Path

import pytest
from system_limits import files_of_at_most, ordinary_user
from workflow_parts import flow, step

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.storage import write_regular

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
