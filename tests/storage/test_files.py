import os
import threading
from pathlib import Path

import pytest
from special_paths import KINDS, special_path

from pflow_mcp_plugin.storage import (
    LIMIT,
    NotRegular,
    StoreError,
    is_descriptor,
    open_regular,
    read_bytes,
    read_regular,
    read_special,
    write_special,
)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_regular_file_is_neither_read_nor_opened_for_writing(tmp_path, kind):
    with special_path(kind, tmp_path / "file") as path:
        with pytest.raises(NotRegular, match=r"it is a (named pipe|device|socket), not a regular file"):
            read_regular(path)
        with pytest.raises(StoreError, match=r"could not be read: it is a .*, not a regular file"):
            read_bytes(path)
        for mode in ("wb", "ab"):
            with pytest.raises(NotRegular):
                open(path, mode, opener=open_regular)  # noqa: SIM115  # it is not opened


@pytest.mark.skipif(not os.access("/proc/kmsg", os.R_OK), reason="the check reads /proc/kmsg")
def test_a_file_that_waits_for_more_is_not_waited_for():
    with pytest.raises(NotRegular, match="it is not a regular file, as it has no end"):
        read_regular(Path("/proc/kmsg"))


def test_a_file_of_the_system_is_read_although_it_has_no_size():
    assert read_regular(Path("/proc/self/stat")).startswith(b"%d " % os.getpid())


def test_a_file_may_have_as_many_bytes_as_the_limit_and_a_huge_one_is_refused_unread(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"123")
    assert read_regular(path, 3) == b"123"
    with pytest.raises(OSError, match="it is larger than 2 bytes"):
        read_regular(path, 2)
    with path.open("wb") as file:
        file.truncate(LIMIT + 1)
    with pytest.raises(StoreError, match="could not be read: it is larger than 256 MiB"):
        read_bytes(path)


def test_a_link_to_a_file_that_is_not_there_creates_the_file(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with open(tmp_path / "link", "wb", opener=open_regular) as file:
        file.write(b"new")
    assert (tmp_path / "file").read_bytes() == b"new"


def test_only_what_the_shell_opens_is_a_descriptor():
    assert all(map(is_descriptor, ("/dev/stdin", "/dev/fd/63", "/proc/self/fd/0")))
    assert not any(map(is_descriptor, ("wf.json", "/dev/null", "/dev/fd/x")))


def test_nothing_is_left_open(tmp_path):
    before = sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208  # the folder itself is open meanwhile
    for path, most in ((Path("/proc/self/stat"), 10), (Path("/dev/zero"), 10), (tmp_path, 10)):
        with pytest.raises(OSError, match=r"it is|directory"):
            read_regular(path, most)
    assert sorted(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def a_pipe(folder):
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


def test_a_pipe_is_read_to_its_end_although_its_writer_comes_later(tmp_path):
    pipe = a_pipe(tmp_path)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"x" * 1_000_000,))
    writer.start()
    assert read_special(pipe, seconds=60) == b"x" * 1_000_000
    writer.join(10)


def test_reading_ends_with_the_run(tmp_path):
    with pytest.raises(InterruptedError, match="the run was stopped"):
        read_special(a_pipe(tmp_path), stopped=lambda: True)


def test_a_pipe_is_written_although_its_reader_comes_later(tmp_path):
    pipe = a_pipe(tmp_path)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_special(pipe, b"x" * 1_000_000, seconds=60)
    reader.join(10)
    assert read == [b"x" * 1_000_000]


def test_a_pipe_that_nobody_reads_is_not_waited_for(tmp_path):
    pipe = a_pipe(tmp_path)
    with pytest.raises(TimeoutError):
        write_special(pipe, b"x", seconds=0.1)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(TimeoutError):
        write_special(pipe, b"x" * 1_000_000, seconds=0.1)
    os.close(reader)
