"""Lines out of chunks."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin.client.transport.messages import MessageStream
from pflow_mcp_plugin.client.transport.pipes import LineBuffer, LineTooLong


def _chunks(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:end] for start, end in pairwise(edges)]


@given(
    st.lists(st.binary(max_size=20).filter(lambda line: b"\n" not in line)),
    st.lists(st.integers(min_value=0)),
)
def test_lines_come_out_as_they_went_in_however_they_are_cut(lines: list[bytes], cuts: list[int]) -> None:
    buffer = LineBuffer(cap=1000)
    data = b"".join(line + b"\n" for line in lines) + b"rest"
    out = [line for chunk in _chunks(data, cuts) for line in buffer.feed(chunk)]
    assert out == lines
    assert buffer.pending == len(b"rest")


def test_an_endless_line_is_cut_off_at_the_cap() -> None:
    buffer = LineBuffer(cap=10)
    for _ in range(2):
        list(buffer.feed(b"12345"))
    with pytest.raises(LineTooLong) as caught:
        list(buffer.feed(b"12345"))
    assert caught.value.size == 15
    assert buffer.pending == 0  # what had come is let go


def test_a_line_that_ends_beyond_the_cap_is_refused_too() -> None:
    with pytest.raises(LineTooLong):
        list(LineBuffer(cap=3).feed(b"12345\n"))


def test_nothing_is_read_after_a_line_that_is_too_long() -> None:
    warnings: list[str] = []
    writer: Any = None  # nothing is sent
    stream = MessageStream(writer, 3 / 2**20, warnings.append)
    stream.seen.opened()
    stream.feed(b"12345\n")
    stream.feed(b"x\n")
    assert (stream.seen.too_long, stream.seen.strays, warnings) == (5, 0, [])


def test_json_that_is_no_object_is_no_message() -> None:
    writer: Any = None  # nothing is sent
    stream = MessageStream(writer, 1, lambda _: None)
    stream.seen.opened()
    stream.feed(b'5\n"x"\nnull\n{}\n')
    assert (stream.seen.strays, stream.seen.unmatched, stream.incoming.ended) == (4, 0, False)
    stream.feed(b'{"result": 1}\n')
    assert stream.seen.unmatched == 1
