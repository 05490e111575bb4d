"""Half characters in JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin.client.transport.messages import replace_lone_surrogates

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
