import os
import threading
from pathlib import Path

import pytest
from special_paths import special_path

from pflow_mcp_plugin.storage import read_special, write_special


def a_pipe(folder):
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


def test_a_pipe_is_read_to_its_end_although_its_writer_comes_later(tmp_path):
    pipe = a_pipe(tmp_path)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"x" * 1_000_000,))
    writer.start()
    assert read_special(pipe, seconds=60) == b"x" * 1_000_000
    writer.join(10)


@pytest.mark.parametrize("kind", ["pipe", "pipe with a writer", "terminal"])
def test_what_does_not_end_ends_with_the_time(tmp_path, kind):
    with special_path(kind, tmp_path / "file") as path, pytest.raises(TimeoutError) as caught:
        read_special(path, seconds=0.1)
    assert caught.value.strerror == "it took longer than 0.1 seconds"


def test_reading_ends_with_the_run(tmp_path):
    with pytest.raises(InterruptedError, match="the run was stopped"):
        read_special(a_pipe(tmp_path), stopped=lambda: True)


def test_an_endless_device_is_read_up_to_the_limit():
    with pytest.raises(OSError, match="it is larger than 1 MiB"):
        read_special(Path("/dev/zero"), most=1 << 20)


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
