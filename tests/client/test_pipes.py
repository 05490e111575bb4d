"""Writing to a pipe whose other end reads, does not, or is gone."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable

import pytest

from pflow_mcp_plugin.client.request_failures import Undelivered
from pflow_mcp_plugin.client.transport.line_transports import PipeWriter, TailReader

_MUCH = b"x" * 1_000_000 + b"\n"


class End:
    """The end of a pipe that reads."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    async def read(self, size: int) -> None:
        while size > 0:
            size -= len(await asyncio.to_thread(os.read, self.descriptor, size))

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor = -1


def is_undelivered(error: BaseException | None) -> bool:
    """Whether an error says that the other side did not get all of the message."""
    return error is not None and isinstance(error.__cause__, Undelivered)


PipeTest = Callable[[PipeWriter, End], Awaitable[None]]


def piped(seconds: float = 0.2) -> Callable[[PipeTest], Callable[[], None]]:
    """Run a test with a writer, which waits for so long, and the other end of its pipe."""

    def made(test: PipeTest) -> Callable[[], None]:
        async def run() -> None:
            reading, writing = os.pipe()
            end, writer = End(reading), PipeWriter(seconds)
            await writer.connect(os.fdopen(writing, "wb", buffering=0))
            try:
                await test(writer, end)
            finally:
                await writer.close(0)
                await asyncio.sleep(0)
                end.close()

        def run_in_a_loop() -> None:
            asyncio.run(run())

        return run_in_a_loop

    return made


@piped()
async def test_a_message_that_is_not_taken_is_given_up_and_known_to_be_unsent(writer, end):
    with pytest.raises(TimeoutError) as given_up:
        await writer.write(_MUCH)
    assert is_undelivered(given_up.value)
    with pytest.raises(BrokenPipeError) as closed:
        await writer.write(b"more\n")
    assert is_undelivered(closed.value)


@piped()
async def test_the_deadline_starts_anew_while_something_is_taken(writer, end):
    async def slowly() -> None:
        for _ in range(5):
            await asyncio.sleep(0.15)
            await end.read(len(_MUCH) // 5)
        await end.read(1)

    reader = asyncio.create_task(slowly())
    await writer.write(_MUCH)
    await reader


@piped()
async def test_a_message_behind_which_another_one_is_stuck_counts_as_sent(writer, end):
    first = asyncio.create_task(writer.write(_MUCH))
    await asyncio.sleep(0)
    second = asyncio.create_task(writer.write(_MUCH))
    await end.read(len(_MUCH))
    with pytest.raises(TimeoutError) as given_up:
        await second
    assert is_undelivered(given_up.value)
    await asyncio.wait({first})
    assert not is_undelivered(first.exception())


@piped(seconds=5)
async def test_a_cancelled_message_is_not_written_on(writer, end):
    task = asyncio.create_task(writer.write(_MUCH))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as cancelled:
        await task
    assert is_undelivered(cancelled.value)
    with pytest.raises(BrokenPipeError):
        await writer.write(b"more\n")


@piped()
async def test_a_message_to_a_closed_pipe_is_unsent(writer, end):
    end.close()
    with pytest.raises(BrokenPipeError) as closed:
        await writer.write(b"message\n")
    assert is_undelivered(closed.value)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody can tell what a server has read")
@piped()
async def test_whether_the_process_has_read_anything_is_known(writer, end):
    assert writer.untouched is True
    await writer.write(b"message\n")
    assert writer.untouched is True
    await end.read(1)
    assert writer.untouched is False
    end.close()
    with pytest.raises(BrokenPipeError):
        await writer.write(b"more\n")
    assert writer.untouched is None
    assert writer.unread is False


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody can tell what a server has read")
@piped()
async def test_of_a_pipe_that_is_closed_it_is_known_that_nothing_was_read(writer, end):
    await writer.write(b"message\n")
    end.close()
    with pytest.raises(BrokenPipeError):
        await writer.write(b"more\n")
    await asyncio.sleep(0)
    assert writer.unread is True


@piped()
async def test_closing_ends_the_input_after_what_was_written(writer, end):
    await writer.write(b"message\n")
    await writer.close(5)
    await asyncio.sleep(0)
    assert os.read(end.descriptor, 100) == b"message\n"
    assert await asyncio.to_thread(os.read, end.descriptor, 100) == b""
    await writer.close(5)


def test_without_a_pipe_nothing_is_sent_and_there_is_nothing_to_close():
    async def run() -> None:
        writer = PipeWriter(0.2)
        assert writer.untouched is None
        with pytest.raises(BrokenPipeError) as unsent:
            await writer.write(b"message\n")
        assert is_undelivered(unsent.value)
        await writer.close(5)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([b"no end"], "no end"),
        ([b"first\n", b"second"], "first\nsecond"),
        ([b"x" * 65_500 + b"\n"] * 5 + [b"last\n"], "x" * 65_500 + "\nlast\n"),
        ([b"x" * 65_536] * 3 + [b"y" * 100], "x" * 65_436 + "y" * 100),
        ([b"x" * 65_536 + b"\n"], "x" * 65_535 + "\n"),
    ],
)
def test_of_what_a_server_logs_the_last_lines_are_kept(chunks, expected):
    reader = TailReader()
    for chunk in chunks:
        reader.data_received(chunk)
    assert reader.text == expected
