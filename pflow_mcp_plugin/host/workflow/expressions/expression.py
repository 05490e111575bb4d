"""Expressions: their syntax, and their evaluation with limits on work and on the size of results.

The syntax is JMESPath, where numbers, `true`, `false` and `null` need no backticks. `$` stands for all values
in scope, also within a filter, and numbers can be added, subtracted, multiplied and divided. All are
additions: every JMESPath expression without deprecated literals means the same here, except one that reads a
key named `true`, `false` or `null`, which is written in double quotes.

What JMESPath itself does not bound is counted here: each visit of a node, each item that is copied, and
the size that each new value would have if it were written out. Lists that share their items are small in
memory and may be huge in a trace.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any

import attrs
from jmespath import ast, exceptions, lexer, parser, visitor

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.foreign_code import foreign_code
from pflow_mcp_plugin.host.workflow.coercion import json_in
from pflow_mcp_plugin.host.workflow.expressions.arithmetic import (
    BINDING_POWER,
    OPERATORS,
    UNARY,
    Token,
    calculated,
    hyphenated,
    is_number,
    with_operators,
)
from pflow_mcp_plugin.host.workflow.expressions.functions import (
    ExpressionFunctions,
    Limits,
    NullArgument,
    Secrets,
    signatures,
)
from pflow_mcp_plugin.host.workflow.findings import cut, said, shown
from pflow_mcp_plugin.host.workflow.templates import with_strings
from pflow_mcp_plugin.storage.json_and_toml import is_same, is_too_deep, strict_json
from pflow_mcp_plugin.terminal.human_units import count_text
from pflow_mcp_plugin.terminal.similar_names import did_you_mean

LONGEST = 4_000
"""The most characters of an expression."""
_PROJECTIONS = frozenset({"projection", "filter_projection", "value_projection", "flatten"})
"""Their first child, whose items they take, is parsed if it is a text that is JSON."""
DEEPEST = 60
"""The most levels of a syntax tree."""

Node = dict[str, Any]
"""A node of the syntax tree, as jmespath makes it."""

_CONSTANTS: Mapping[str, bool | None] = {"true": True, "false": False, "null": None}
_COMPARATORS = frozenset({"eq", "ne", "lt", "lte", "gt", "gte"})
_AFTER_NUMBER = _COMPARATORS | {"comma", *OPERATORS}
_MAKING = _PROJECTIONS | {"function_expression", "multi_select_dict", "multi_select_list", "slice"}
_STEPS = frozenset({"field", "index", "slice"})
_OF_ITEMS = _PROJECTIONS | {"pipe"}
"""Nodes that take something from each item of their first child, or of its result."""
_TEMPLATE = re.compile(r"(?<!\$)\$\{")


@lru_cache(maxsize=512)
def parsed(text: str) -> Expression:
    """Parse an expression within the limits, each text once; an error says where it is wrong."""
    if len(text) > LONGEST:
        raise _refused(text, f"it has {len(text):,} characters, more than {LONGEST:,}", "Split it up")
    if not text.strip():
        raise _refused(text, "it is empty", "Write one, such as: length(items) > 3")
    try:
        tokens = _tokens(text)
        tree = _Parser(tokens).tree()
    except exceptions.ParseError as error:
        raise _malformed(text, error) from error
    except RecursionError:
        tree = None
    except ValueError as error:  # an integer of thousands of digits
        raise _refused(text, cut(str(error))) from error
    if tree is None or is_too_deep(tree, 2 * DEEPEST):  # each level is an object and a list
        raise _refused(text, f"it is nested deeper than {DEEPEST} levels", "Split it up")
    _check_calls(text, tree)
    for node in nodes_in(tree):
        if node["type"] in _PROJECTIONS:
            node["children"][0]["opens"] = True
        if node["type"] == "slice" and node["children"][2] == 0:
            raise _refused(text, "the step of a slice is 0", "Write another one, such as [::2] or [::-1]")
    names = (it for it in reversed(tokens) if it["type"] in ("unquoted_identifier", "quoted_identifier"))
    positions = {token["value"]: token["start"] + 1 for token in names}  # the first of each name counts
    compared = (other for one, other in pairwise(tokens) if one["type"] in _COMPARATORS)
    quoted = (token["value"] for token in compared if token["type"] == "quoted_identifier")
    return Expression(
        text=text, tree=tree, positions=positions, quoted=tuple(quoted), hyphenated=hyphenated(text)
    )


class _Lexer(lexer.Lexer):
    """Splits an expression by its syntax into tokens: JMESPath's, `$` and `+-/%`; backticks only hold JSON.

    A template in a string is refused, as it would be plain text; `$${` is a literal `${`, as elsewhere.
    """

    SIMPLE_TOKENS = {  # noqa: RUF012 - as in the base class
        **lexer.Lexer.SIMPLE_TOKENS,
        "$": "root",
        **{sign: sign for sign in "+-/%"},
    }

    def _consume_literal(self) -> Token:
        start = self._position
        text = self._consume_until("`").replace("\\`", "`")
        try:
            value = strict_json(text)
        except (ValueError, RecursionError):
            message = f"`{cut(text)}` is not JSON"
            raise exceptions.LexerError(start, text, message) from None
        return self._without_templates(start, value)

    def _consume_raw_string_literal(self) -> Token:
        start = self._position
        return self._without_templates(start, super()._consume_raw_string_literal()["value"])

    def _without_templates(self, start: int, value: object) -> Token:
        template = _TEMPLATE.search(self._expression, start, self._position)
        if template:
            raise exceptions.LexerError(template.start(), template[0], "template in a string")
        value = with_strings(value, lambda text: text.replace("$${", "${"))
        return {"type": "literal", "value": value, "start": start, "end": self._position}


def _tokens(text: str) -> list[Token]:
    """Return the tokens of an expression, with constants and decimal numbers as literals."""
    found = list(with_operators(_Lexer().tokenize(text)))
    tokens: list[Token] = []
    for token, following in pairwise([*found, {"type": ""}]):
        kind, before = token["type"], [it["type"] for it in tokens[-2:]]
        # Unless it is a member, a key or a function of that name.
        is_value = before[-1:] != ["dot"] and following["type"] not in ("colon", "lparen")
        if kind == "unquoted_identifier" and token["value"] in _CONSTANTS and is_value:
            tokens.append({**token, "type": "literal", "value": _CONSTANTS[token["value"]]})
        elif (
            kind == "number"
            and before == ["number", "dot"]
            and token["value"] >= 0
            and tokens[-2]["end"] == tokens[-1]["start"]
            and tokens[-1]["end"] == token["start"]
        ):
            whole = tokens[-2]["start"]
            number = float(text[whole : token["end"]])
            tokens[-2:] = [{**token, "type": "literal", "value": number, "start": whole}]
        elif kind == "number" and following["type"] in _AFTER_NUMBER:  # in a list, so not an index
            tokens.append({**token, "type": "literal"})
        else:
            tokens.append(token)
    return tokens


class _Parser(parser.Parser):
    BINDING_POWER = {**parser.Parser.BINDING_POWER, "root": 0, **BINDING_POWER}  # noqa: RUF012 - as there

    def __init__(self, tokens: list[Token]) -> None:
        super().__init__()
        self._tokens = tokens
        for sign in OPERATORS:  # jmespath finds the method by the type of a token
            setattr(self, f"_token_led_{sign}", partial(self._operation, sign))
        setattr(self, "_token_nud_-", self._negative)

    def tree(self) -> Node:
        tree: Node = self._expression(binding_power=0)
        if self._current_token() != "eof":
            token = self._lookahead_token(0)
            raise exceptions.ParseError(token["start"], token["value"], token["type"], "Unexpected")
        return tree

    def _token_nud_root(self, _: Token) -> Node:
        return {"type": "root", "children": []}

    def _token_nud_number(self, token: Token) -> Node:
        return ast.literal(token["value"])

    def _operation(self, sign: str, left: Node) -> Node:
        right = self._expression(self.BINDING_POWER[sign])
        return {"type": "arithmetic", "value": sign, "children": [left, right]}

    def _negative(self, _: Token) -> Node:
        return {"type": "arithmetic", "value": "-", "children": [self._expression(UNARY)]}


def path_text(node: Node) -> str:
    """Return a parsed expression as text if it is a path; empty for any other expression."""
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
    """Yield every node of an expression's syntax tree; it does not recurse."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [child for child in node["children"] if isinstance(child, dict)]


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
            least = count_text(known[name].least, "argument")
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
    char = text[place]  # a blank that is not one of the language's must be visible
    found = ascii(char) if char.isspace() else cut(text[place:].split(maxsplit=1)[0])
    return _refused(text, f"unexpected {found}", _step(text, place), place + 1)


def _step(text: str, place: int) -> str:
    char, before = text[place], text[:place]
    if char == "-" and before and (before[-1].isalnum() or before[-1] == "_"):
        return 'Put names with a hyphen in double quotes, as in "read-file".content'
    if text[place - 1 : place + 1] == "${" or text[place : place + 2] == "${":
        return "An expression names values without ${} and quotes: write fetch.result; $${ is a literal ${"
    if "**" in text[:place]:
        return "There are no powers: write size * size"
    if char == "=":
        return "Compare with =="
    if char in OPERATORS or text[place - 1 : place + 1] in ("&&", "||"):
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


class Evaluation(visitor.TreeInterpreter):
    """One evaluation of an expression, in which `$` stands for `everything`."""

    def __init__(self, everything: Mapping[str, Any], limits: Limits) -> None:
        self._limits = limits
        self._callable = ExpressionFunctions(limits)
        super().__init__(visitor.Options(custom_functions=self._callable))
        self._everything = everything
        self._texts: dict[int, tuple[str, Any]] = {}  # by identity, and kept, as `Limits` keeps sizes

    def visit(self, node: Node, *args: Any, **kwargs: Any) -> Any:
        self._limits.spend(1)
        kind = node["type"]
        value = self._opened(args[0]) if kind in _STEPS else args[0]
        result = super().visit(node, value)
        if kind in _MAKING:
            self._limits.require_size(self._limits.size(result))
        return self._opened(result) if "opens" in node else result

    def visit_root(self, _: Node, __: Any) -> Any:
        return self._everything

    def visit_function_expression(self, node: Node, value: Any) -> Any:
        arguments = [self.visit(child, value) for child in node["children"]]
        try:
            return self._callable.call_function(node["value"], arguments)
        except NullArgument as error:
            pairs = zip(node["children"], arguments, strict=True)
            reasons = [self._why_null(child, value) for child, argument in pairs if argument is None]
            if not any(reasons):
                raise
            message = f"{error.message}; {' and '.join(filter(None, reasons))}"
            # A default instead of a value without items would only hide the mistake.
            is_missing = any(reason.endswith(" is null") for reason in reasons)
            raise (NullArgument(message) if is_missing else PflowError(message)) from error

    def _why_null(self, node: Node, value: Any, before: str = "") -> str:
        """Return in words why a part of the expression is null; empty if the reason is not clear."""
        path = path_text(node)
        if path:
            found = self.visit(node, value)
            if found is None:
                return f"{before}{path} is null"
            return "" if isinstance(found, list) else f"{before}{path} is {_described(found)}, not a list"
        inner = node["children"]
        if node["type"] == "subexpression" and (left := path_text(inner[0])):
            return self._why_null(inner[1], self.visit(inner[0], value), f"{before}{left}.")
        return self._why_null(inner[0], value, before) if node["type"] in _OF_ITEMS else ""

    def visit_field(self, node: Node, value: Any) -> Any:
        """Evaluate a name in an expression; only objects have members, whatever methods a value may have."""
        return value.get(node["value"]) if isinstance(value, dict) else None

    def visit_value_projection(self, node: Node, value: Any) -> Any:
        base = self.visit(node["children"][0], value)
        if not isinstance(base, dict):
            return None
        found = (self.visit(node["children"][1], item) for item in base.values())
        return [item for item in found if item is not None]

    def visit_flatten(self, node: Node, value: Any) -> Any:
        """Evaluate `[]` in an expression; its length is counted first, as inner lists may be the same one."""
        base = self.visit(node["children"][0], value)
        if not isinstance(base, list):
            return None
        lists = [self._opened(item) if isinstance(item, tuple) else item for item in base]
        self._limits.spend(sum(len(item) if isinstance(item, list) else 1 for item in lists))
        merged: list[Any] = []
        for item in lists:
            merged.extend(item if isinstance(item, list) else [item])
        return merged

    def visit_comparator(self, node: Node, value: Any) -> Any:
        # Two values that cannot be ordered give null.
        left, right = (self.visit(child, value) for child in node["children"])
        if node["value"] in ("eq", "ne"):
            self._limits.spend(min(self._limits.size(left), self._limits.size(right)))
            return is_same(left, right) == (node["value"] == "eq")
        if not all(map(is_number, (left, right))) and not all(isinstance(it, str) for it in (left, right)):
            return None
        return self.COMPARATOR_FUNC[node["value"]](left, right)

    def visit_arithmetic(self, node: Node, value: Any) -> Any:
        values = [self.visit(child, value) for child in node["children"]]
        return calculated(node["value"], values, [path_text(child) for child in node["children"]])

    def _opened(self, value: Any) -> Any:
        """Return a value as an expression's path enters it: a tuple as a list, JSON text as its value."""
        if isinstance(value, tuple):
            self._limits.spend(len(value))
            return list(value)
        if not isinstance(value, str):
            return value
        known = self._texts.get(id(value))
        if known is None:
            self._limits.spend(len(value) // 16)
            found = json_in(value)
            known = self._texts[id(value)] = (value, value if found is None else found)
        return known[1]


def _described(value: object) -> str:
    if isinstance(value, str):
        return "a string that is not JSON"
    if isinstance(value, dict) and value:
        return cut(f"an object with {', '.join(map(str, value))}")
    return shown(value)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Expression:
    """An expression as written, its syntax tree, and remarks for its author.

    `positions` says where each name first stands, from 1. `quoted` are the names in double quotes in
    comparisons, where a string may have been meant; see `arithmetic` for the `hyphenated` ones.
    """

    text: str
    tree: Node
    positions: Mapping[str, int]
    quoted: tuple[str, ...]
    hyphenated: Mapping[str, str]

    def value(
        self,
        everything: Mapping[str, Any],
        current: Any = None,
        *,
        secrets: Secrets | None = None,
        now: str = "",
    ) -> Any:
        """Evaluate the expression; it reads these values and nothing else, and changes none of them.

        `now` is what `now()` returns, by default the time. Raises PflowError if it fails, or takes too much
        work or memory.
        """
        evaluation = Evaluation(everything, Limits(secrets, now))
        with foreign_code(self._failure):  # the values may be objects of nodes, which may raise anything
            return evaluation.visit(self.tree, current)

    def _failure(self, error: BaseException) -> PflowError:
        is_deep = isinstance(error, RecursionError)
        reason = "a value is nested too deeply" if is_deep else said(error)
        message = f"The expression {cut(self.text)!r} failed: {reason}"
        steps = error.suggestions if isinstance(error, PflowError) else ()
        return PflowError(message, details={"expression": self.text}, suggestions=steps)


def is_true(value: object) -> bool:
    """Return whether the value of an expression counts as true in a condition.

    As in JMESPath, `false`, `null`, and an empty string, list or object are false; 0 is not.
    """
    return value is not None and value is not False and value not in ("", [], {}, ())
