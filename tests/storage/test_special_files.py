import os
import threading

import pytest

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
