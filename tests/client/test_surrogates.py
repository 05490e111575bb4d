"""Half characters in JSON, alone and in streams."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin.client.surrogates import SurrogateMender, mended

TEXTS = st.text(st.one_of(st.characters(categories=["Cs"]), st.sampled_from('\\"ud8Dcé\n😀a')))


@given(TEXTS)
def test_halves_are_replaced_and_all_else_is_left(text: str) -> None:
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert json.loads(mended(json.dumps(text).encode())) == whole


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
def test_an_escaped_backslash_begins_no_half(sent: bytes, read: str) -> None:
    assert json.loads(mended(b'"' + sent + b'"')) == read


@given(TEXTS, st.lists(st.integers(1, 20)))
def test_a_stream_reads_the_same_however_it_is_cut(text: str, sizes: list[int]) -> None:
    data = json.dumps(text).encode()
    mender, passed, rest = SurrogateMender(), b"", data
    for size in sizes:
        passed += mender.feed(rest[:size])
        rest = rest[size:]
    assert passed + mender.feed(rest) + mender.rest() == mended(data)
