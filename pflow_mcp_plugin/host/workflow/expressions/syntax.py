"""The syntax of expressions: JMESPath, where numbers, `true`, `false` and `null` need no backticks.

`$` stands for all values in scope, also within a filter. Both are additions: every JMESPath expression
without deprecated literals means the same here, except one that reads a key named `true`, `false` or
`null`, which is written in double quotes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import attrs
from jmespath import ast, exceptions, lexer, parser

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.workflow.coercion import refuse_number
from pflow_mcp_plugin.host.workflow.expressions.functions import signatures
from pflow_mcp_plugin.host.workflow.findings import cut, did_you_mean
from pflow_mcp_plugin.terminal.human_units import count_text

LONGEST = 4_000
"""Characters of an expression."""
_PROJECTIONS = frozenset({"projection", "filter_projection", "value_projection", "flatten"})
"""Their first child, what they are made of, is parsed if it is a text that is JSON."""
DEEPEST = 60
"""Levels of a syntax tree."""

Node = dict[str, Any]
"""A node of the syntax tree, as jmespath makes it."""
Token = dict[str, Any]

_CONSTANTS: Mapping[str, bool | None] = {"true": True, "false": False, "null": None}
_COMPARATORS = frozenset({"eq", "ne", "lt", "lte", "gt", "gte"})


@attrs.frozen
class Syntax:
    """A parsed expression: its tree, and remarks for its author.

    Attributes:
        tree: The root of the syntax tree.
        positions: Where each name first stands, from 1.
        quoted: Names in double quotes that are compared with, where a string may have been meant.
    """

    tree: Node
    positions: Mapping[str, int]
    quoted: tuple[str, ...] = ()


def read_syntax(text: str) -> Syntax:
    """Parse an expression.

    Raises:
        PflowError: Kind `validation`: it is not one, or above the limits; says where and what to do.
    """
    if len(text) > LONGEST:
        raise _refused(text, f"it has {len(text):,} characters, more than {LONGEST:,}", "Split it up")
    if not text.strip():
        raise _refused(text, "it is empty", "Write one, such as: length(items) > 3")
    try:
        tokens = _tokens(text)
        tree = _Parser(text, tokens).tree()
    except exceptions.ParseError as error:
        raise _malformed(text, error) from error
    except RecursionError:
        tree = None
    except ValueError as error:  # an integer of thousands of digits
        raise _refused(text, cut(str(error))) from error
    if tree is None or _is_deep(tree):
        raise _refused(text, f"it is nested deeper than {DEEPEST} levels", "Split it up")
    _check_calls(text, tree)
    for node in nodes_in(tree):
        if node["type"] in _PROJECTIONS:
            node["children"][0]["opens"] = True
    names = (it for it in reversed(tokens) if it["type"] in ("unquoted_identifier", "quoted_identifier"))
    positions = {token["value"]: token["start"] + 1 for token in names}  # the first of each name counts
    compared = (other for one, other in pairwise(tokens) if one["type"] in _COMPARATORS)
    quoted = (token["value"] for token in compared if token["type"] == "quoted_identifier")
    return Syntax(tree, positions, tuple(quoted))


class _Lexer(lexer.Lexer):
    """Adds `$`, and accepts only JSON between backticks."""

    SIMPLE_TOKENS = {**lexer.Lexer.SIMPLE_TOKENS, "$": "root"}  # noqa: RUF012 - as in the base class

    def _consume_literal(self) -> Token:
        start = self._position
        text = self._consume_until("`").replace("\\`", "`")
        try:
            value = json.loads(text, parse_constant=refuse_number)
        except (ValueError, RecursionError):
            message = f"`{cut(text)}` is not JSON"
            raise exceptions.LexerError(start, text, message) from None
        return {"type": "literal", "value": value, "start": start, "end": self._position}


def _tokens(text: str) -> list[Token]:
    """Return the tokens of an expression, with constants and decimal numbers as literals."""
    found = list(_Lexer().tokenize(text))
    tokens: list[Token] = []
    for token, following in pairwise([*found, {"type": ""}]):
        if _is_constant(tokens, token, following):
            tokens.append({**token, "type": "literal", "value": _CONSTANTS[token["value"]]})
        elif token["type"] == "number" and _continues_number(tokens, token):
            whole = tokens[-2]["start"]
            number = float(text[whole : token["end"]])
            tokens[-2:] = [{**token, "type": "literal", "value": number, "start": whole}]
        elif token["type"] == "number" and following["type"] == "comma":  # in a list, so not an index
            tokens.append({**token, "type": "literal"})
        else:
            tokens.append(token)
    return tokens


def _is_constant(tokens: Sequence[Token], token: Token, following: Token) -> bool:
    if token["type"] != "unquoted_identifier" or token["value"] not in _CONSTANTS:
        return False
    is_member = bool(tokens) and tokens[-1]["type"] == "dot"
    return not is_member and following["type"] not in ("colon", "lparen")


def _continues_number(tokens: Sequence[Token], token: Token) -> bool:
    if len(tokens) < 2 or [it["type"] for it in tokens[-2:]] != ["number", "dot"] or token["value"] < 0:
        return False
    return bool(tokens[-2]["end"] == tokens[-1]["start"] and tokens[-1]["end"] == token["start"])


class _Parser(parser.Parser):
    """The parser of jmespath, for `$` and bare numbers; without its cache."""

    BINDING_POWER = {**parser.Parser.BINDING_POWER, "root": 0}  # noqa: RUF012 - as in the base class

    def __init__(self, text: str, tokens: list[Token]) -> None:
        super().__init__()
        self._text = text
        self._tokens = tokens

    def tree(self) -> Node:
        """Return the root of the syntax tree."""
        tree: Node = self._expression(binding_power=0)
        if self._current_token() != "eof":
            token = self._lookahead_token(0)
            raise exceptions.ParseError(token["start"], token["value"], token["type"], "Unexpected")
        return tree

    def _token_nud_root(self, _: Token) -> Node:
        return {"type": "root", "children": []}

    def _token_nud_number(self, token: Token) -> Node:
        return ast.literal(token["value"])


def path_text(node: Node) -> str:
    """Return a path as it is written in an expression; an empty string for what is not one."""
    kind, value = node["type"], node.get("value")
    if kind == "field":
        name = str(value)
        return name if name.isidentifier() and name.isascii() else json.dumps(name, ensure_ascii=False)
    if kind == "index":
        return f"[{value}]"
    if kind in ("subexpression", "index_expression"):
        parts = [path_text(child) for child in node["children"]]
        return ("." if kind == "subexpression" else "").join(parts) if all(parts) else ""
    return {"root": "$"}.get(kind, "")


def nodes_in(tree: Node) -> Iterator[Node]:
    """Yield every node of a syntax tree; it does not recurse."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += _children(node)


def _children(node: Node) -> list[Node]:
    return [child for child in node["children"] if isinstance(child, dict)]  # those of a slice are numbers


def _is_deep(tree: Node) -> bool:
    level = [tree]
    for _ in range(DEEPEST):
        level = [child for node in level for child in _children(node)]
        if not level:
            return False
    return True


def _check_calls(text: str, tree: Node) -> None:
    known = signatures()
    given = set()
    for node in nodes_in(tree):
        if node["type"] != "function_expression":
            continue
        name, arguments = node["value"], node["children"]
        if name not in known:
            step = did_you_mean(name, known, f"The functions are {', '.join(known)}")
            raise _refused(text, f"there is no function {name}", step)
        if not known[name].takes(len(arguments)):
            least = count_text(len(known[name].parameters), "argument")
            message = f"{name}() takes {least}, not {len(arguments)}"
            raise _refused(text, message, f"Write {known[name].usage}")
        for number, argument in enumerate(arguments):
            wants = "expref" in known[name].types_at(number)
            if wants != (argument["type"] == "expref"):
                given_as = "with & before it" if wants else "without &"
                message = f"argument {number + 1} of {name}() is an expression {given_as}"
                raise _refused(text, message, f"Write {known[name].usage}")
            given.add(id(argument))
    if any(node["type"] == "expref" and id(node) not in given for node in nodes_in(tree)):
        raise _refused(text, "& stands only before an argument of a function")


def _malformed(text: str, error: exceptions.ParseError) -> PflowError:
    place = error.lex_position
    if isinstance(error, exceptions.IncompleteExpressionError) or place is None or place >= len(text):
        return _refused(text, "it ends too early", position=len(text) + 1)
    if isinstance(error, exceptions.LexerError) and "JSON" in error.message:
        return _refused(text, error.message, position=place + 1)
    rest = text[place:]
    return _refused(text, f"unexpected {cut(rest.split()[0])}", _step(text, place), place + 1)


def _step(text: str, place: int) -> str:
    char, before = text[place], text[:place]
    if char == "-" and before and (before[-1].isalnum() or before[-1] == "_"):
        return 'Put names with a hyphen in double quotes, as in "read-file".content'
    if text[place - 1 : place + 1] == "${" or text[place : place + 2] == "${":
        return "An expression names values without ${}: write fetch.result"
    if char in "+-/*%":
        return "There is no arithmetic; see the functions, such as sum() and length()"
    if char == "=":
        return "Compare with =="
    if text[place - 1 : place + 1] in ("&&", "||"):
        return "Something is missing beside it"
    return r'Strings are in single quotes; one with a backslash is JSON in backticks: `"a\\b"`'


def _refused(text: str, reason: str, step: str = "", position: int = 0) -> PflowError:
    where = f" at character {position}" if position else ""
    details = {"expression": text[:LONGEST], **({"position": position} if position else {})}
    return PflowError(
        f"Invalid expression {cut(text)!r}: {reason}{where}",
        kind="validation",
        details=details,
        suggestions=(step,) if step else (),
    )
