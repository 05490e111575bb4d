import errno
import os
import stat
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin import storage
from pflow_mcp_plugin.storage import (
    CorruptFile,
    JsonStore,
    StoreError,
    append_regular,
    atomic_files,
    keep_backup,
    locked,
    sweep,
    write_atomic,
    write_output,
    write_regular,
)


def a_store(path, **options):
    return JsonStore(path=path, schema_version=1, what="settings", **options)  # type: ignore[arg-type]  # any parameter of `JsonStore`


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def leftovers(folder):
    return [item.name for item in folder.iterdir() if item.name.endswith(".tmp")]


def test_all_folders_are_below_pflow_home_or_where_the_platform_says(monkeypatch, tmp_path):
    monkeypatch.setenv("PFLOW_HOME", str(tmp_path))
    paths = storage.default_paths()
    names = [path.name for path in (paths.config, paths.data, paths.state, paths.cache)]
    assert (names, paths.state.parent) == (["config", "data", "state", "cache"], tmp_path)
    monkeypatch.delenv("PFLOW_HOME")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert "pflow" in storage.default_paths().config.parts


@pytest.mark.parametrize("home", [True, False])
def test_the_current_folder_is_that_of_a_project_if_the_environment_says_so(monkeypatch, tmp_path, home):
    monkeypatch.setenv("PFLOW_HOME", str(tmp_path) if home else "")
    monkeypatch.chdir(tmp_path)
    for value, project in (("1", tmp_path), ("0", None)):
        monkeypatch.setenv("PFLOW_PROJECT", value)
        assert storage.default_paths().project == project


def test_a_file_is_removed_under_its_lock_and_what_is_not_there_is_fine(tmp_path):
    path = tmp_path / "a.json"
    storage.remove(path)
    write_atomic(path, b"{}")
    storage.remove(path)
    assert not path.exists()
    path.mkdir()
    with pytest.raises(StoreError, match="could not be removed"):
        storage.remove(path)


def test_a_folder_that_is_not_there_holds_no_files_and_one_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "a.json").touch()
    (tmp_path / "a.json.lock").touch()
    assert storage.json_files_in(tmp_path) == [tmp_path / "a.json"]
    assert storage.json_files_in(tmp_path / "none") == []
    with pytest.raises(StoreError, match=r"a\.json: the folder could not be read: not a directory"):
        storage.json_files_in(tmp_path / "a.json")
    with pytest.raises(StoreError, match="the folder could not be created: file name too long"):
        storage.make_folder(tmp_path / ("a" * 300))
    with pytest.raises(StoreError, match=str(tmp_path)):
        storage.read_bytes(tmp_path)


@pytest.mark.parametrize(
    ("write", "order"),
    [
        (write_atomic, ["file", "replace", "folder"]),
        (write_output, ["file", "replace", "folder"]),
        (write_regular, ["file", "replace", "folder"]),
        (partial(write_atomic, durable=False), ["replace"]),
    ],
)
@pytest.mark.parametrize("is_there", [True, False])
def test_content_is_on_the_disk_before_it_replaces_the_old(monkeypatch, tmp_path, write, order, is_there):
    path = tmp_path / "file"
    if is_there:
        path.write_bytes(b"old")
    assert _synced(monkeypatch, partial(write, path, b"new")) == order
    assert path.read_bytes() == b"new"
    other = tmp_path / "other"
    other.hardlink_to(path)
    assert _synced(monkeypatch, partial(write_regular, path, b"newer")) == ["file"]
    assert other.read_bytes() == b"newer"


def _synced(monkeypatch, write):
    """Return what `write` has put on the disk, and when it replaced the file."""
    seen, sync, replace = [], os.fsync, os.replace
    with monkeypatch.context() as patch:

        def synced(descriptor):
            seen.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
            sync(descriptor)

        patch.setattr(os, "fsync", synced)
        patch.setattr(
            os, "replace", lambda *paths, **named: (seen.append("replace"), replace(*paths, **named))
        )
        write()
    return seen


def test_a_disk_that_is_full_in_mid_append_leaves_what_was_there(monkeypatch, tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"old\n")
    write, left = os.write, [3, 0]

    def full(descriptor, data):
        room = left.pop(0)
        if not room:
            raise OSError(errno.ENOSPC, "full")
        return write(descriptor, data[:room])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match="full"):
            append_regular(path, b"new line\n")
    assert path.read_bytes() == b"old\n"
    append_regular(path, b"new line\n")
    assert path.read_bytes() == b"old\nnew line\n"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EOPNOTSUPP])
def test_a_file_with_several_names_is_written_only_if_there_is_room(monkeypatch, tmp_path, number):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    (tmp_path / "other").hardlink_to(path)

    def allocate(descriptor, begin, length):
        os.ftruncate(descriptor, begin + length)  # as far as it came
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "posix_fallocate", allocate)
    if number == errno.EOPNOTSUPP:  # a file system that cannot tell
        assert "further names" in write_regular(path, b"longer")
        assert path.read_bytes() == b"longer"
    else:
        with pytest.raises(OSError, match=os.strerror(number)):
            write_regular(path, b"longer")
        assert path.read_bytes() == b"old"


def test_each_older_content_is_kept_in_a_backup_of_its_own(tmp_path):
    path = tmp_path / "file"
    kept = [keep_backup(path, content).name for content in (b"a", b"b", b"a", b"c", b"b")]
    assert kept == ["file.bak", "file.bak-2", "file.bak", "file.bak-3", "file.bak-2"]
    assert (tmp_path / "file.bak-2").read_bytes() == b"b"


def test_temporary_files_of_dead_writers_are_swept_and_those_of_living_ones_kept(tmp_path):
    dead = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True, check=True
    )
    (tmp_path / f".f.{dead.stdout.strip()}-00ff.tmp").touch()
    (tmp_path / f".f.{os.getpid()}-00ff.tmp").touch()
    (tmp_path / "notes.tmp").touch()
    sweep(tmp_path)
    assert sorted(leftovers(tmp_path)) == sorted([f".f.{os.getpid()}-00ff.tmp", "notes.tmp"])


def test_a_lock_that_is_not_given_up_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(atomic_files, "LOCK_WAIT", 0.05)
    path = tmp_path / "file"
    with locked(path), pytest.raises(StoreError, match="locked") as caught, locked(path):
        pass
    assert "file.lock" in caught.value.suggestions[0]
    with locked(path):
        assert mode(tmp_path / "file.lock") == 0o600


def test_a_missing_store_is_empty_and_a_change_creates_it(tmp_path):
    store = a_store(tmp_path / "sub" / "file.json")
    with pytest.raises(ZeroDivisionError):
        store.update(lambda data: data.update(key=1 // 0))
    assert store.read() == {}
    written = store.update(lambda data: data.update(key="ü"))
    assert written == store.read() == {"key": "ü", "schema_version": 1}


@pytest.mark.parametrize(
    ("content", "line", "column"),
    [
        (b'{"a": 1,\n  oops}', 2, 3),
        (b'{"a":\n "\xff"}', 2, 3),
        (b"[]", 1, 1),
        (b'{"a":' * 100_000, 0, 0),
        (b'{"schema_version": "two"}', 0, 0),
        (b'{"a": ' + b"9" * 5000 + b"}", 0, 0),
    ],
)
def test_a_corrupt_file_is_refused_with_its_place_and_not_written_over(tmp_path, content, line, column):
    path = tmp_path / "file.json"
    path.write_bytes(content)
    store = a_store(path)
    with pytest.raises(CorruptFile) as caught:
        store.read()
    with pytest.raises(CorruptFile):
        store.update(dict.clear)
    place = {"line": line, "column": column} if line else {}
    assert caught.value.details == {"path": str(path), **place}
    assert str(path) in caught.value.message
    assert path.read_bytes() == content


@given(
    st.dictionaries(
        st.text().filter(lambda key: key != "schema_version"), st.none() | st.text() | st.integers()
    )
)
def test_any_object_comes_back_as_it_was_written(data):
    content = storage.encode_json(Path("x"), data)
    assert storage.decode_json(Path("x"), content) == data


def test_a_number_that_json_has_not_is_not_written_nor_a_link_to_itself_replaced(tmp_path):
    store = a_store(tmp_path / "file.json")
    with pytest.raises(StoreError, match=r"file\.json: could not be written as JSON"):
        store.update(lambda data: data.update(number=float("nan")))
    assert not store.path.exists()
    store.path.symlink_to(store.path)
    with pytest.raises(StoreError, match=r"file\.json"):
        store.update(dict.clear)
    assert store.path.is_symlink()


@pytest.mark.parametrize(("private", "new", "kept"), [(False, 0o640, 0o755), (True, 0o600, 0o600)])
def test_a_file_the_user_named_gets_what_the_umask_gives_and_keeps_its_mode(
    monkeypatch, tmp_path, *, private, new, kept
):
    path = tmp_path / "page.html"
    before = os.umask(0o027)
    try:
        storage.write_output(path, b"one", private=private)
    finally:
        os.umask(before)
    assert mode(path) == new
    path.chmod(0o755)
    storage.write_output(path, b"two", private=private)
    assert (path.read_bytes(), mode(path)) == (b"two", kept)
    monkeypatch.setattr(os, "write", _full)
    with pytest.raises(StoreError, match=r"page\.html: could not be written: no space left"):
        storage.write_output(path, b"three", private=private)
    assert path.read_bytes() == b"two"


def _full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_pipe_whose_reader_leaves_is_told_and_not_replaced_by_a_file(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def read_a_little():
        with pipe.open("rb", buffering=0) as reader:
            reader.read(1)

    reading = threading.Thread(target=read_a_little)
    reading.start()
    with pytest.raises(StoreError, match="pipe: could not be written: broken pipe"):
        storage.write_output(pipe, b"x" * 1_000_000)
    reading.join(10)
    assert pipe.is_fifo()


def test_a_file_that_cannot_be_set_aside_is_told_and_left(tmp_path):
    path = tmp_path / ("x" * 250)  # which leaves no room for the name of its backup
    path.write_text("oops")
    with pytest.raises(StoreError, match="x: could not be moved aside: ") as caught:
        storage.set_aside(path)
    assert caught.value.path == path
    assert [left.read_text() for left in tmp_path.iterdir()] == ["oops"]


def test_a_corrupt_file_that_cannot_be_set_aside_is_not_started_afresh(tmp_path, monkeypatch):
    path = tmp_path / "file.json"
    path.write_text("oops")
    reported = []
    store = a_store(path, rebuildable=True, report=reported.append)
    monkeypatch.setattr(Path, "replace", _full)
    for act in (store.read, lambda: store.update(lambda data: data.update(a=1))):
        with pytest.raises(StoreError, match=r"file\.json: could not be moved aside: no space left"):
            act()
    assert path.read_text() == "oops"
    assert reported == []
