"""Pauses that event streams demand, wherever the chunks begin and end."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin.client.eventstream import RetryClamp, clamped

PIECES = [b"data: x", b"retry: 5", b"retry:999999", b"retry", b"id: 1", b": retry: 1", b"", b"data: retry: 7"]


def passed(*chunks: bytes) -> bytes:
    clamp = RetryClamp()
    return b"".join(map(clamp.feed, chunks)) + clamp.rest()


@pytest.mark.parametrize(
    ("wanted", "granted"),
    [
        (b"3000", 3000),
        (b" 3000", 3000),
        (b"0", 100),
        (b"30000", 30_000),
        (b"30001", 30_000),
        (b"0000000000200", 200),
        (b"9" * 6000, 30_000),
        (b"-1", 1000),
        (b"soon", 1000),
    ],
)
def test_a_pause_lies_between_a_tenth_of_a_second_and_thirty(wanted, granted):
    assert clamped(wanted) == granted


def test_only_retry_lines_are_rewritten():
    stream = b"id: 1\nretry: 99999999\ndata: retry: 99999999\n\n: retry: 99999999\n\n"
    assert passed(stream) == stream.replace(b"\nretry: 99999999", b"\nretry: 30000")


@given(
    st.lists(st.sampled_from(PIECES), max_size=8),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.lists(st.integers(0, 80), max_size=6),
)
def test_the_chunks_make_no_difference(lines, end, cuts):
    stream = b"".join(line + end for line in lines)
    places = sorted({0, *(cut for cut in cuts if cut < len(stream)), len(stream)})
    chunks = [stream[start:stop] for start, stop in pairwise(places)]
    assert passed(*chunks) == passed(stream)


@given(st.lists(st.binary(max_size=12), max_size=6))
def test_what_holds_no_retry_line_passes_unchanged(chunks):
    stream = b"".join(chunks)
    if b"retry" not in stream:
        assert passed(*chunks) == stream
