import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin.host.direct.link_words import Link, read_chain


def test_a_param_stays_with_its_node_whatever_it_is_called():
    chain = read_chain(["echo", "--param", "print=--save", "then", "llm", "--param=input=a b"])
    assert chain.links == (Link("echo", ("--param=print=--save",)), Link("llm", ("--param=input=a b",)))
    assert not chain.is_shown


def test_help_is_that_of_the_node_it_stands_with():
    assert read_chain(["echo", "then", "llm", "--help"]).help_of == 1
    assert read_chain(["--help"]).help_of == 0
    assert read_chain(["echo", "--message=--help"]).help_of is None


def test_the_short_form_asks_for_help_unless_a_flag_takes_it_as_its_value():
    assert read_chain(["-h"]).help_of == 0
    assert read_chain(["echo", "--json", "-h"]).help_of == 0
    assert read_chain(["echo", "--message", "hi", "then", "llm", "-h"]).help_of == 1
    valued = read_chain(["echo", "--message", "-h"])
    assert valued.help_of is None
    assert valued.links == (Link("echo", ("--message", "-h")),)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "A node is missing"),
        (["echo", "then"], "A node is missing after `then`"),
        (["then", "echo"], "A node is missing before `then`"),
        (["echo", "then", ">>", "echo"], "A node is missing after `then`"),
        (["--message", "hi"], "--message stands where a node is expected"),
        (["echo", "--", "hi"], "-- is not needed: a flag takes the word that follows it"),
        (["echo", "--save"], "--save needs a value"),
        (["echo", "--save", "then", "llm"], "--save needs a value"),
        (["echo", "--save", "--print"], "--save needs a value"),
        (["echo", "--save", ""], "--save needs a value"),
        (["echo", "--save="], "--save needs a value"),
        (["echo", "--save", "a", "--save", "b"], "--save is given twice"),
        (["echo", "--print=yes"], "--print takes no value"),
        (["echo", "--param"], "--param needs a value"),
    ],
)
def test_words_that_make_no_chain_are_named(words, message):
    assert [problem.message for problem in read_chain(words).problems] == [message]


@given(st.lists(st.sampled_from(["then", ">>", "--", "--save", "--print", "a", "-", "--param", "--x=1", ""])))
def test_every_word_is_read_or_reported(words):
    chain = read_chain(words)
    assert len(chain.links) == sum(word in ("then", ">>") for word in words) + 1
    assert all(link.node for link in chain.links) or chain.problems
