"""Lines out of chunks, messages out of lines, and half characters in them."""

import asyncio
import json
from itertools import pairwise
from typing import Any, cast

import pytest
from anyio import EndOfStream
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import JSONRPCError

from pflow_mcp_plugin.client.transport.messages import (
    LineBuffer,
    LineTooLong,
    MessageQueue,
    MessageStream,
    as_message,
    replace_lone_surrogates,
)


def _chunks(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:end] for start, end in pairwise(edges)]


@given(
    st.lists(st.binary(max_size=20).filter(lambda line: b"\n" not in line)),
    st.lists(st.integers(min_value=0)),
)
def test_lines_come_out_as_they_went_in_however_they_are_cut(lines, cuts):
    buffer = LineBuffer(cap=1000)
    data = b"".join(line + b"\n" for line in lines) + b"rest"
    out = [line for chunk in _chunks(data, cuts) for line in buffer.feed(chunk)]
    assert out == lines
    assert buffer.pending == len(b"rest")


@pytest.mark.parametrize("last", [b"12345", b"12345\n"])
def test_a_line_is_cut_off_at_the_cap_whether_it_ends_or_not(last):
    buffer = LineBuffer(cap=10)
    for _ in range(2):
        list(buffer.feed(b"12345"))
    with pytest.raises(LineTooLong) as caught:
        list(buffer.feed(last))
    assert caught.value.size == 15
    assert buffer.pending == 0  # what had come is let go


def test_nothing_is_read_after_a_line_that_is_too_long():
    warnings: list[str] = []
    write: Any = None  # nothing is sent
    stream = MessageStream(write, 3 / 2**20, warnings.append)
    stream.seen.opened()
    stream.feed(b"12345\n")
    stream.feed(b"x\n")
    assert (stream.seen.too_long, stream.seen.strays, warnings) == (5, 0, [])


def test_a_message_with_bytes_that_are_not_utf_8_is_read_and_the_warning_says_so():
    warnings: list[str] = []
    write: Any = None  # nothing is sent
    stream = MessageStream(write, 1, warnings.append)
    stream.seen.opened()
    stream.feed(b'{"jsonrpc": "2.0", "method": "\xff"}\n')
    assert warnings == ["writes bytes that are not UTF-8; they become U+FFFD"]
    assert stream.seen.unmatched == 0


def test_json_that_is_no_object_is_no_message():
    write: Any = None  # nothing is sent
    stream = MessageStream(write, 1, lambda _: None)
    stream.seen.opened()
    stream.feed(b'5\n"x"\nnull\n{}\n')
    assert (stream.seen.strays, stream.seen.unmatched, stream.incoming.ended) == (4, 0, False)
    stream.feed(b'{"result": 1}\n')
    assert stream.seen.unmatched == 1


class Source:
    """What is read from, as far as a queue knows it."""

    def __init__(self) -> None:
        self.paused: list[bool] = []

    def pause_reading(self) -> None:
        self.paused.append(True)

    def resume_reading(self) -> None:
        self.paused.append(False)


def test_reading_pauses_while_many_messages_wait_and_goes_on_below_half_of_that():
    async def run() -> None:
        queue, source = MessageQueue(), Source()
        queue.source = cast("asyncio.ReadTransport", source)
        sent: list[Any] = list(range(300))
        for number, message in enumerate(sent):
            queue.put(message)
            assert source.paused == ([True] if number >= 255 else [])
        blocked = asyncio.ensure_future(queue.room())
        received = [await anext(queue) for _ in range(172)]
        assert (source.paused, blocked.done()) == ([True], False)
        received.append(await anext(queue))
        await blocked
        assert source.paused == [True, False]
        queue.end()
        queue.put(sent[0])
        assert received + [message async for message in queue] == sent
        with pytest.raises(EndOfStream):
            await queue.receive()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("said", "answers"),
    [
        ({"jsonrpc": "2.0", "id": 1}, 1),
        ({"id": 1.0, "result": 3}, 1),
        ({"id": "a", "error": 3}, "a"),
        ({"id": 2, "result": {}}, None),
        ({"id": [1], "result": {}}, None),
        ({"id": 1, "method": 3}, None),
        ([1], None),
    ],
)
def test_an_answer_that_is_no_message_is_the_error_of_its_request(said, answers):
    found = as_message(said, {1, "a"})
    if answers is None:
        assert found is None
        return
    assert isinstance(found, JSONRPCError)
    assert (found.id, type(found.id), found.error.code) == (answers, type(answers), -32700)
    assert found.error.message.startswith("Failed to parse ")


TEXTS = st.text(st.one_of(st.characters(categories=["Cs"]), st.sampled_from('\\"ud8Dcé\n😀a')))


@given(TEXTS)
def test_halves_are_replaced_and_all_else_is_left(text):
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert json.loads(replace_lone_surrogates(json.dumps(text).encode())) == whole


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        (rb"\ud83d", "\ufffd"),
        (rb"\uDE00", "\ufffd"),
        (rb"\ud83d\ud83d\ude00", "\ufffd😀"),
        (rb"\ud83d\ude00", "😀"),
        (rb"\\ud83d", r"\ud83d"),
        (rb"\\ud83d\ude00", "\\ud83d\ufffd"),
        (rb"\\\ud83d", "\\\ufffd"),
    ],
)
def test_an_escaped_backslash_begins_no_half(sent, read):
    assert json.loads(replace_lone_surrogates(b'"' + sent + b'"')) == read
