from __future__ import annotations

import pytest

from pflow_mcp_plugin.host.planning.key_names import (
    is_same_name,
    is_synonym,
    is_vague,
    name_words,
    names_main,
    names_place,
    template_name,
)


def test_a_name_is_read_as_its_words_without_endings():
    assert name_words("filePaths") == name_words("file_path") == name_words("File-Path")
    assert name_words("") == name_words("--") == ()


@pytest.mark.parametrize(
    ("one", "other"), [("filePath", "file_path"), ("filepath", "file-paths"), ("URL", "url")]
)
def test_case_separators_and_plural_do_not_matter(one, other):
    assert is_same_name(one, other)


@pytest.mark.parametrize(("one", "other"), [("", ""), ("-", "_"), ("path", "file_path"), ("title", "text")])
def test_other_names_are_not_the_same(one, other):
    assert not is_same_name(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("result", "text"),
        ("body", "message"),
        ("result", "page_content"),
        ("result", "markdownContent"),
        ("search", "query"),
        ("link", "url"),
        ("results", "rows"),
    ],
)
def test_names_that_mean_the_same_are_synonyms(one, other):
    assert is_synonym(one, other)
    assert is_synonym(other, one)


@pytest.mark.parametrize(
    ("one", "other"), [("result", "commit_message"), ("result", "query"), ("url", "path")]
)
def test_other_names_are_no_synonyms(one, other):
    assert not is_synonym(one, other)


def test_some_names_are_the_same_by_chance():
    assert is_vague("id")
    assert is_vague("user_name")
    assert not is_vague("issue_number")


def test_a_name_may_say_what_a_key_stands_for():
    assert names_main("query")
    assert names_main("text")
    assert not names_main("limit")
    assert names_place("outputPath")
    assert not names_place("text")


@pytest.mark.parametrize(
    ("key", "name"), [("file_path", "file_path"), ("a b.c", "a_b_c"), ("-x_", "x"), ("??", "value")]
)
def test_a_name_for_templates_has_letters_digits_hyphens_and_underscores_only(key, name):
    assert template_name(key, "value") == name
    assert len(template_name("x" * 1000, "value")) == 100
