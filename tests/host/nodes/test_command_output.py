from __future__ import annotations

import pytest

from pflow_mcp_plugin.host.nodes.command_output import INLINE, SHOWN, CommandOutput

SECRET = b"sk-0123456789abcdefghijklmnopqrstuvwxyz!"


def redact(text):
    return text.replace(SECRET.decode(), "***")


@pytest.mark.parametrize("offset", [0, 1, 20, 39, 40, 2_000])
def test_a_secret_at_a_seam_leaves_no_part_of_it(tmp_path, offset):
    output = CommandOutput("stdout", tmp_path / "file", 4 * INLINE)
    filling = b"." * (SHOWN - offset)
    margin = b"," * 4_096
    for edge in (b"", margin):
        output.add(filling + edge + SECRET)
    output.add(b"-" * INLINE)
    for edge in (b"", margin):
        output.add(SECRET + edge + filling)
    output.close()
    text = output.text(redact)
    parts = {SECRET.decode()[at : at + 8] for at in range(len(SECRET) - 8)}
    assert [part for part in parts if part in text] == []


def test_what_is_beyond_the_limit_is_dropped(tmp_path):
    output = CommandOutput("stdout", tmp_path / "file", 5)
    output.add(b"123")
    assert not output.exceeded
    output.add(b"456")
    output.add(b"789")
    assert (output.exceeded, output.text(redact), output.path) == (True, "12345", None)
