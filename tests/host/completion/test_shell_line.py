import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin.host.completion.shell_reply import bash_quoted, read_line

BREAKS = " \t\n\"'@><=;|&(:"


@pytest.mark.parametrize(
    ("line", "words", "current"),
    [
        ('pflow echo "a \\"b\\" $x \\y" c', ["pflow", "echo", 'a "b" $x \\y'], "c"),
        ("pflow a\\ b\\'c d", ["pflow", "a b'c"], "d"),
        ("pflow 'a\\' b", ["pflow", "a\\"], "b"),
        ("pflow '' b", ["pflow", ""], "b"),
        ("pflow end\\", ["pflow"], "end"),
        ("pflow run a >out.txt 2>errors b", ["pflow", "run", "a"], "b"),
    ],
)
def test_a_line_is_read_as_the_shell_reads_it(line, words, current):
    found = read_line(line, BREAKS)
    assert (found.words, found.current, found.redirected) == (words, current, False)


@pytest.mark.parametrize(("line", "kept"), [("pflow --type=ht", 7), ("pflow --body=@no", 7)])
def test_it_is_known_which_part_of_a_word_the_shell_replaces(line, kept):
    found = read_line(line, BREAKS)
    assert (found.quote, found.kept) == ("", kept)


@pytest.mark.parametrize("line", ["pflow run a > ", "pflow run a > ou", "pflow run < in", "pflow x 2> e"])
def test_the_file_of_a_redirection_is_not_an_argument(line):
    found = read_line(line)
    assert found.redirected
    assert found.words[-1] in {"a", "run", "x"}


@given(st.text(alphabet=st.characters(blacklist_categories=("Cc", "Cs")), min_size=1))
def test_what_is_quoted_for_bash_is_read_back_as_it_was(text):
    for quote in ("", "'", '"'):
        assert read_line(f"pflow {quote}{bash_quoted(text, quote)}").current == text
