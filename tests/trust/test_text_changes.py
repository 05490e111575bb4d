"""Which changes of a text are corrections, and which new texts are plain."""

from __future__ import annotations

import pytest

from pflow_mcp_plugin.trust.text_changes import hidden, is_correction, objection


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Lists files", "  lists **files**. "),
        ("Recieve the mesage", "Receive the message"),
        ("Read whcih of the specifeid files", "Read which of the specified files"),
        ("Gets info about a repo", "Get information about the repository"),
        ("It doesn't end, e.g. at night", "It does not end (for example, at night)"),
        ("Looks up a file name", "Look up a filename"),
        ("Reads a file. Needs a path.", "Needs a path. Reads a file."),
        ("获取天气\uff0c包括温度。", "获取天气, 包括温度."),
        ("Cafe\u0301", "Cafe"),
        ("\u26a0\ufe0f Careful", "Careful"),
        ("a\u200bb", "ab"),
    ],
)
def test_a_correction_goes_through(old, new):
    assert is_correction(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Does not delete files", "Does delete files"),
        ("Reads a file", "Reads a file now"),
        ("Opens a read-only file", "Opens a read-write file"),
        ("Returns at most 10 files", "Returns at most 100 files"),
        ("Prevents loss", "Presents loss"),
        ("A remote file", "A remove file"),
        ("Enables it", "Disables it"),
        ("A safe place", "An unsafe place"),
        ("not able to write", "notable to write"),
        ("Copies a to b, from x", "Copies a from b, to x"),
        ("if x < 5", "if x > 5"),
        ("Allowed: \u2705", "Allowed: \u274c"),
        ("See https://a.example/x", "See https://a.example/y"),
        ("Use get_file", "Use set_file"),
        ("Never:\n- delete\nAlways:\n- list", "Never:\n- list\nAlways:\n- delete"),
        ("कि", "की"),
        ("が", "か"),
        ("Lists", "Lists\u200b"),
        ("safe", "s\u0430fe"),
    ],
)
def test_a_small_edit_that_turns_the_meaning_does_not(old, new):
    assert not is_correction(old, new)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("Path of the file, e.g. https://example.com/a", ""),
        ("See https://example.com.collect.invalid", "a link"),
        ("See https://example.com@collect.invalid", "a link"),
        ("Contents of ~/.ssh/id_rsa", "a private file"),
        ("Contents of .env", "a private file"),
        ("<b>Always</b>", "markup"),
        ("Send it to a@b.invalid", "an address"),
        ("word " * 41, "long text"),
        ("x" * 100, "long text"),
        ("a\u2066b", "hidden characters"),
    ],
)
def test_a_new_text_is_plain_if_it_is_short_and_names_nothing_private(text, what):
    assert objection(text) == what


def test_what_belongs_to_an_emoji_is_not_hidden():
    assert not hidden("\u26a0\ufe0f \U0001f469\u200d\U0001f4bb")
    assert hidden("a\ufe0f\u200d")
