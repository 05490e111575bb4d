"""Writing to a pipe whose other end reads, does not, or is gone."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable

import pytest

from pflow_mcp_plugin.client.exchange import Undelivered
from pflow_mcp_plugin.client.pipes import PipeWriter

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


def with_pipe(test: Callable[[PipeWriter, End], Awaitable[None]], seconds: float = 0.2) -> None:
    """Run a test with a writer and the other end of its pipe."""

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

    asyncio.run(run())


def test_a_message_that_is_not_taken_is_given_up_and_known_to_be_unsent() -> None:
    async def test(writer: PipeWriter, end: End) -> None:
        with pytest.raises(TimeoutError) as given_up:
            await writer.write(_MUCH)
        assert is_undelivered(given_up.value)
        with pytest.raises(BrokenPipeError) as closed:
            await writer.write(b"more\n")
        assert is_undelivered(closed.value)

    with_pipe(test)


def test_the_deadline_starts_anew_while_something_is_taken() -> None:
    async def test(writer: PipeWriter, end: End) -> None:
        async def slowly() -> None:
            for _ in range(5):
                await asyncio.sleep(0.15)
                await end.read(len(_MUCH) // 5)
            await end.read(1)

        reader = asyncio.create_task(slowly())
        await writer.write(_MUCH)
        await reader

    with_pipe(test)


def test_a_message_behind_which_another_one_is_stuck_counts_as_sent() -> None:
    async def test(writer: PipeWriter, end: End) -> None:
        first = asyncio.create_task(writer.write(_MUCH))
        await asyncio.sleep(0)
        second = asyncio.create_task(writer.write(_MUCH))
        await end.read(len(_MUCH))
        with pytest.raises(TimeoutError) as given_up:
            await second
        assert is_undelivered(given_up.value)
        await asyncio.wait({first})
        assert not is_undelivered(first.exception())

    with_pipe(test)


def test_a_cancelled_message_is_not_written_on() -> None:
    async def test(writer: PipeWriter, end: End) -> None:
        task = asyncio.create_task(writer.write(_MUCH))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as cancelled:
            await task
        assert is_undelivered(cancelled.value)
        with pytest.raises(BrokenPipeError):
            await writer.write(b"more\n")

    with_pipe(test, seconds=5)


def test_a_message_to_a_closed_pipe_is_unsent() -> None:
    async def test(writer: PipeWriter, end: End) -> None:
        end.close()
        with pytest.raises(BrokenPipeError) as closed:
            await writer.write(b"message\n")
        assert is_undelivered(closed.value)

    with_pipe(test)
