from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin.contract import Suggestion
from pflow_mcp_plugin.host.completion.shell_reply import (
    bash_quoted,
    path_names,
    read_line,
    read_request,
    reply,
)

BREAKS = " \t\n\"'@><=;|&(:"


def answered(shell, arguments, *suggestions):
    return list(reply(shell, read_request(shell, arguments), suggestions))


@pytest.mark.parametrize(
    ("typed", "value", "inserted"),
    [
        ("pflow reg", "registry", "registry"),
        ("pflow x --type=ht", "--type=http", "http"),
        ("pflow x a:b:", "a:b:c", "c"),
        ("pflow x ", "two words", "two\\ words"),
        ("pflow x ", "$(rm -rf ~)`x`;&|<>*?", "\\$\\(rm\\ -rf\\ \\~\\)\\`x\\`\\;\\&\\|\\<\\>\\*\\?"),
        ("pflow x 'two", "two'words", "two'\\''words"),
        ('pflow x "two', 'two"$w', 'two\\"\\$w'),
    ],
)
def test_bash_is_given_what_it_inserts_as_it_is(typed, value, inserted):
    assert answered("bash", [BREAKS, typed], Suggestion(value=value)) == [f"word\t{inserted}"]


def test_in_double_quotes_bash_is_given_nothing_that_it_would_take_for_its_history():
    found = answered("bash", [BREAKS, 'pflow x "a'], Suggestion(value="a!b"), Suggestion(value="ab"))
    assert found == ["word\tab"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize("hostile", ["a\nword\tb", "a\x1b[31mb", "a\tb", "a\x9bb", "a\u202eb", "a\ud800"])
def test_what_could_steer_a_terminal_never_reaches_a_shell(shell, hostile):
    arguments = [BREAKS, "pflow "] if shell == "bash" else [""]
    fine = Suggestion(value="fine", help=f"about {hostile}")
    (found,) = answered(shell, arguments, Suggestion(value=hostile, help=hostile), fine)
    kind, value, *about = found.split("\t")
    assert (kind, value) == ("word", "fine")
    assert "".join(about).isprintable()


def test_a_description_is_one_short_line():
    (line,) = answered("fish", [""], Suggestion(value="x", help="first\n\nsecond " + "long " * 100))
    about = line.split("\t")[2]
    assert about.startswith("first second long")
    assert len(about) <= 72


def test_fish_and_zsh_are_told_where_a_path_begins():
    found = answered("zsh", ["--x", "--body=@no"], Suggestion(value="--body=@", type="file"))
    assert found == ["file\t--body=@\tno"]
    assert answered("fish", ["'a b"], Suggestion(value="", type="dir")) == ["folder\t\ta b"]


def test_the_words_before_the_cursor_are_those_after_the_program():
    bash = read_request("bash", [BREAKS, "pflow echo a;b 'c"])
    assert bash == (["echo", "a", "b"], "c", "'", 0, False)
    assert read_request("zsh", ["echo", "a b", "c"]) == (["echo", "a b"], "c", "", 0, False)
    assert read_request("fish", ["echo", "a b", "'c"]) == (["echo", "a b"], "c", "", 0, False)


def test_bash_lists_files_itself_unless_there_are_words_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my file").touch()
    (tmp_path / "sub").mkdir()
    a_file = Suggestion(value="", type="file")
    a_word, folder = Suggestion(value="saved"), Suggestion(value="", type="dir")
    for typed, suggestions, found in (
        ("", [a_file], ["file\t"]),
        ("--x=", [Suggestion(value="--x=", type="file")], ["file\t"]),
        ("--x=@m", [Suggestion(value="--x=@", type="file")], ["word\t@my\\ file"]),
        ("", [a_word, a_file], ["word\tsaved", "word\tmy\\ file", "stem\tsub/"]),
        ("", [a_word, folder], ["word\tsaved", "stem\tsub/"]),
    ):
        assert answered("bash", [BREAKS, f"pflow run {typed}"], *suggestions) == found


@pytest.mark.parametrize(
    ("typed", "wanted", "inserted"),
    [
        ("pflow run ~/no", "", "~/notes\\ file"),
        ("pflow run ~user/no", "", "~user/notes\\ file"),
        ("pflow run --x=~/no", "--x=", "~/notes\\ file"),
        ("pflow run --x=@~/no", "--x=@", "@~/notes\\ file"),
        ("pflow run --x=@'~/no", "--x=@", "~/notes file"),
        ('pflow run "~/no', "", "{home}/notes file"),
        ("pflow run ./~/no", "", "./\\~/notes\\ file"),
    ],
)
def test_bash_is_given_a_home_folder_so_that_the_path_exists(tmp_path, monkeypatch, typed, wanted, inserted):
    home = tmp_path / "home"
    for folder in (home, tmp_path / "~"):
        folder.mkdir()
        (folder / "notes file").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr("pwd.getpwnam", {"user": SimpleNamespace(pw_dir=str(home))}.__getitem__)
    a_word = Suggestion(value=f"{wanted}other")
    found = answered("bash", [BREAKS, typed], a_word, Suggestion(value=wanted, type="file"))
    paths = [line.removeprefix("word\t") for line in found if "other" not in line]
    assert paths == [inserted.format(home=home)]


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


def names(typed, **options):
    return [(each.value, each.type) for each in path_names(typed, **options)]


def test_paths_are_those_that_begin_as_typed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "notes.txt").touch()
    (tmp_path / ".hidden").touch()
    (tmp_path / "new" / "inner").mkdir(parents=True)
    assert names("n") == [("new/", "stem"), ("notes.txt", "plain")]
    assert names("") == names("n")
    assert names(".h") == [(".hidden", "plain")]
    assert names("new/") == [("new/inner/", "stem")]
    assert names("~/no") == [("~/notes.txt", "plain")]
    assert names("", folders_only=True) == [("new/", "stem")]
    assert names("absent/") == []
