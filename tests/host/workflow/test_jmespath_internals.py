"""The private members of jmespath that are used: what they look like, and that there are no others."""

import inspect
import re
from pathlib import Path

import pytest
from jmespath.functions import Functions
from jmespath.lexer import Lexer
from jmespath.parser import Parser
from jmespath.visitor import TreeInterpreter

from pflow_mcp_plugin.host.workflow import expressions
from pflow_mcp_plugin.host.workflow.expressions.functions import ExpressionFunctions

CLASSES = (Lexer, Parser, Functions, TreeInterpreter)
SIGNATURES = {
    (Lexer, "_consume_literal"): ["self"],
    (Lexer, "_consume_until"): ["self", "delimiter"],
    (Parser, "_expression"): ["self", "binding_power"],
    (Parser, "_current_token"): ["self"],
    (Parser, "_lookahead_token"): ["self", "number"],
}
ATTRIBUTES = {(Lexer, "_position"): Lexer._initialize_for_expression, (Parser, "_tokens"): Parser.__init__}
FUNCTIONS = {"contains", "join", "to_number", "to_string"}
"""Those of jmespath that ours replace."""


@pytest.mark.parametrize(("owner", "name"), SIGNATURES)
def test_a_private_method_takes_what_it_is_given(owner, name):
    assert list(inspect.signature(getattr(owner, name)).parameters) == SIGNATURES[owner, name]


@pytest.mark.parametrize(("owner", "name"), ATTRIBUTES)
def test_a_private_attribute_is_set_where_an_object_begins(owner, name):
    assert f"self.{name} = " in inspect.getsource(ATTRIBUTES[owner, name])


def test_the_parser_finds_what_a_token_begins_by_its_name():
    assert "'_token_nud_%s'" in inspect.getsource(Parser._expression)
    assert list(inspect.signature(Parser._token_nud_literal).parameters) == ["self", "token"]


def test_the_lexer_leaves_literals_to_the_method_that_is_replaced():
    assert "self._consume_literal()" in inspect.getsource(Lexer.tokenize)


def test_a_function_that_is_replaced_is_one_of_jmespath_by_name():
    prefix = "_func_"
    replaced = {name for name in vars(ExpressionFunctions) if name.startswith(prefix)} & {*vars(Functions)}
    assert {name.removeprefix(prefix) for name in replaced} == FUNCTIONS


def test_no_other_private_member_is_used():
    sources = [path.read_text(encoding="utf-8") for path in Path(expressions.__file__).parent.glob("*.py")]
    used = {name for source in sources if "from jmespath" in source for name in private_names(source)}
    pinned = {name for _, name in (*SIGNATURES, *ATTRIBUTES)}
    assert used & jmespath_names() - {f"_func_{name}" for name in FUNCTIONS} == pinned


def private_names(source):
    return set(re.findall(r"(?:\.|def )(_[a-z]\w*)", source))


def jmespath_names():
    names = {name for owner in CLASSES for name in {*vars(owner), *set_in(owner)}}
    return {name for name in names if name.startswith("_") and not name.startswith("__")}


def set_in(owner):
    return re.findall(r"self\.(\w+) = ", inspect.getsource(owner))
