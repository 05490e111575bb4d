import os
from pathlib import Path

import pytest

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.direct.link_words import Link, file_text, read_chain


def test_a_param_stays_with_its_node_whatever_it_is_called():
    chain = read_chain(["echo", "--param", "print=--save", "then", "llm", "--param=input=a b"])
    assert chain.links == (Link("echo", ("--param=print=--save",)), Link("llm", ("--param=input=a b",)))
    assert not chain.is_shown


def test_help_is_that_of_the_node_it_stands_with_unless_a_flag_takes_the_word_as_its_value():
    assert read_chain(["--help"]).help_of == 0
    assert read_chain(["echo", "--json", "-h"]).help_of == 0
    assert read_chain(["echo", "--message", "hi", "then", "llm", "-h"]).help_of == 1
    assert read_chain(["echo", "--message=--help"]).help_of is None
    valued = read_chain(["echo", "--message", "-h"])
    assert (valued.help_of, valued.links) == (None, (Link("echo", ("--message", "-h")),))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "A node is missing"),
        (["echo", "then"], "A node is missing after `then`"),
        (["then", "echo"], "A node is missing before `then`"),
        (["--message", "hi"], "--message stands where a node is expected"),
        (["echo", "--", "hi"], "-- is not needed: a flag takes the word that follows it"),
        (["echo", "--save"], "--save needs a value"),
        (["echo", "--save", "--print"], "--save needs a value"),
        (["echo", "--save", "a", "--save", "b"], "--save is given twice"),
        (["echo", "--print=yes"], "--print takes no value"),
    ],
)
def test_words_that_make_no_chain_are_named(words, message):
    assert [problem.message for problem in read_chain(words).problems] == [message]


def test_a_file_at_home_and_a_descriptor_that_the_shell_opened_are_read(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a.txt").write_text("at home")
    assert file_text(Path("~/a.txt"), "@~/a.txt") == "at home"
    reading, writing = os.pipe()
    os.write(writing, b"from a command")
    os.close(writing)
    assert file_text(Path(f"/dev/fd/{reading}"), f"@/dev/fd/{reading}") == "from a command"
    os.close(reading)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nobody", "no such file: "),
        ("pipe", " cannot be read: "),
        ("bytes", " is not UTF-8 text"),
    ],
)
def test_what_cannot_be_read_is_named_with_the_way_to_write_the_text(tmp_path, name, reason):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(PflowError) as failure:
        file_text(tmp_path / name, f"@{name}")
    assert reason in failure.value.message
    assert str(tmp_path / name) in failure.value.message
    assert failure.value.suggestions == (f"For the text @{name} itself, write @@{name}",)
    assert failure.value.kind == "usage"


def test_a_name_that_no_system_accepts_is_refused():
    for name in ("a" * 5000, "a\0b"):
        with pytest.raises(PflowError):
            file_text(Path(name), "@aaa")
