"""Writing to a pipe whose other end reads, does not, or is gone."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable

import pytest

from pflow_mcp_plugin.client.pipes import PipeWriter

_MUCH = b"x" * 1_000_000 + b"\n"


class End:
    """The end of a pipe that reads, and what the writer said of its messages."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.unsent = 0

    def note_unsent(self) -> None:
        self.unsent += 1

    async def read(self, size: int) -> None:
        while size > 0:
            size -= len(await asyncio.to_thread(os.read, self.descriptor, size))

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor = -1


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
        with pytest.raises(TimeoutError):
            await writer.write(_MUCH, end.note_unsent)
        assert end.unsent == 1
        with pytest.raises(BrokenPipeError):
            await writer.write(b"more\n", end.note_unsent)
        assert end.unsent == 2

    with_pipe(test)


def test_the_deadline_starts_anew_while_something_is_taken() -> None:
    async def test(writer: PipeWriter, end: End) -> None:
        async def slowly() -> None:
            for _ in range(5):
                await asyncio.sleep(0.15)
                await end.read(len(_MUCH) // 5)
            await end.read(1)

        reader = asyncio.create_task(slowly())
        await writer.write(_MUCH, end.note_unsent)
        await reader
        assert end.unsent == 0

    with_pipe(test)


def test_a_message_behind_which_another_one_is_stuck_counts_as_sent() -> None:
    async def test(writer: PipeWriter, end: End) -> None:
        first = asyncio.create_task(writer.write(_MUCH, end.note_unsent))
        await asyncio.sleep(0)
        second = asyncio.create_task(writer.write(_MUCH, end.note_unsent))
        await end.read(len(_MUCH))
        with pytest.raises(TimeoutError):
            await second
        await asyncio.wait({first})
        assert end.unsent == 1

    with_pipe(test)


def test_a_cancelled_message_is_not_written_on() -> None:
    async def test(writer: PipeWriter, end: End) -> None:
        task = asyncio.create_task(writer.write(_MUCH, end.note_unsent))
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        assert end.unsent == 1
        with pytest.raises(BrokenPipeError):
            await writer.write(b"more\n")

    with_pipe(test, seconds=5)


def test_a_message_to_a_closed_pipe_is_unsent() -> None:
    async def test(writer: PipeWriter, end: End) -> None:
        end.close()
        with pytest.raises(BrokenPipeError):
            await writer.write(b"message\n", end.note_unsent)
        assert end.unsent == 1

    with_pipe(test)
