"""A parsed expression, and its evaluation with limits on work and on the size of what is made.

What JMESPath itself does not bound is counted here: each visit of a node, each item that is copied, and
the size that each new value would have if it were written out. Lists that share their items are small in
memory and may be huge in a trace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import attrs
from jmespath import visitor

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.foreign_code import foreign_code
from pflow_mcp_plugin.host.workflow.coercion import json_in
from pflow_mcp_plugin.host.workflow.expressions.functions import (
    ExpressionFunctions,
    NullArgument,
    strings_in,
)
from pflow_mcp_plugin.host.workflow.expressions.syntax import Node, Syntax, path_text, read_syntax
from pflow_mcp_plugin.host.workflow.findings import cut, said, shown

MOST_WORK = 2_000_000
"""Steps of one evaluation: some seconds, enough to filter a hundred thousand items."""
LARGEST = 2_000_000
"""The values in anything that an expression makes; sixteen characters count as one."""

_MAKING = frozenset(
    {
        "filter_projection",
        "flatten",
        "function_expression",
        "multi_select_dict",
        "multi_select_list",
        "projection",
        "slice",
        "value_projection",
    }
)
_STEPS = frozenset({"field", "index", "slice"})
_OF_ITEMS = frozenset({"filter_projection", "flatten", "pipe", "projection", "value_projection"})
"""What takes something of each item of its first child, or of what that makes."""
__all__ = ["Expression", "Secrets", "is_true", "parsed"]


@attrs.frozen
class Secrets:
    """The secrets of a run: a function that changes a text that contains one makes another.

    Attributes:
        known: Returns them.
        redact: Redacts them from a text.
        add: Adds some.
    """

    known: Callable[[], frozenset[str]]
    redact: Callable[[str], str]
    add: Callable[[list[str]], None]


class Evaluation(visitor.TreeInterpreter):
    """One evaluation of an expression.

    Args:
        everything: What `$` stands for.
        secrets: Those of the run, if there is one.
    """

    def __init__(self, everything: Mapping[str, Any], secrets: Secrets | None = None) -> None:
        self._callable = ExpressionFunctions(self)
        super().__init__(visitor.Options(custom_functions=self._callable))
        self._everything = everything
        self._secrets = secrets
        self._left = MOST_WORK
        # By identity; the values are kept, so that no other gets the same one.
        self._sizes: dict[int, tuple[Any, int]] = {}
        self._texts: dict[int, tuple[str, Any]] = {}

    def visit(self, node: Node, *args: Any, **kwargs: Any) -> Any:
        """Evaluate a node of the expression's tree on a value, within the limits."""
        self.spend(1)
        kind = node["type"]
        value = self._opened(args[0]) if kind in _STEPS else args[0]
        result = super().visit(node, value)
        if kind in _MAKING and self.size(result) > LARGEST:
            raise _too_large()
        return self._opened(result) if "opens" in node else result

    def spend(self, work: int) -> None:
        """Count work against the limit of the evaluation.

        Raises:
            PflowError: It is used up.
        """
        self._left -= work
        if self._left < 0:
            step = "Filter first, or split the work into several nodes"
            raise PflowError(f"it takes more than {MOST_WORK:,} steps", suggestions=(step,))

    def size(self, value: object) -> int:
        """Return the size that a value of the evaluation would have if it were written out."""
        if isinstance(value, str):
            return 1 + len(value) // 16
        if not isinstance(value, list | dict | tuple):
            return 1
        known = self._sizes.get(id(value))
        if known is None:
            self.spend(len(value))
            members = value.values() if isinstance(value, dict) else value
            known = self._sizes[id(value)] = (value, 1 + sum(map(self.size, members)))
        return known[1]

    def require_length(self, characters: int) -> None:
        """Do nothing unless the evaluation would make a text that is too long; then raise PflowError."""
        if characters // 16 > LARGEST:
            raise _too_large()

    def derived(self, text: str, change: Callable[[str], object]) -> None:
        """Before the evaluation changes a text that contains secrets, add what they become to them."""
        secrets = self._secrets
        if secrets is None or secrets.redact(text) == text:
            return
        for secret in secrets.known():
            if secret in text:
                secrets.add([*strings_in(change(secret))])

    def visit_root(self, _: Node, __: Any) -> Any:
        """Evaluate `$`."""
        return self._everything

    def visit_function_expression(self, node: Node, value: Any) -> Any:
        """Evaluate a call; where the function takes no null, the error names the argument that is null."""
        arguments = [self.visit(child, value) for child in node["children"]]
        try:
            return self._callable.call_function(node["value"], arguments)
        except NullArgument as error:
            pairs = zip(node["children"], arguments, strict=True)
            reasons = [self._why_null(child, value) for child, argument in pairs if argument is None]
            if not any(reasons):
                raise
            message = f"{error.message}; {' and '.join(filter(None, reasons))}"
            # A default in place of what has no items would only hide the mistake.
            is_missing = any(reason.endswith(" is null") for reason in reasons)
            raise (NullArgument(message) if is_missing else PflowError(message)) from error

    def _why_null(self, node: Node, value: Any, before: str = "") -> str:
        """Return in words why a part of the expression is null; empty if that is not plain."""
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
        """Evaluate a name; only objects have members, whatever methods a value may have."""
        return value.get(node["value"]) if isinstance(value, dict) else None

    def visit_value_projection(self, node: Node, value: Any) -> Any:
        """Evaluate `*` on the values of an object."""
        base = self.visit(node["children"][0], value)
        if not isinstance(base, dict):
            return None
        found = (self.visit(node["children"][1], item) for item in base.values())
        return [item for item in found if item is not None]

    def visit_flatten(self, node: Node, value: Any) -> Any:
        """Evaluate `[]`; the length is counted first, as the inner lists may be one and the same."""
        base = self.visit(node["children"][0], value)
        if not isinstance(base, list):
            return None
        lists = [self._opened(item) if isinstance(item, tuple) else item for item in base]
        self.spend(sum(len(item) if isinstance(item, list) else 1 for item in lists))
        merged: list[Any] = []
        for item in lists:
            merged.extend(item if isinstance(item, list) else [item])
        return merged

    def visit_comparator(self, node: Node, value: Any) -> Any:
        """Evaluate a comparison; two values that cannot be ordered give null."""
        left, right = (self.visit(child, value) for child in node["children"])
        if node["value"] in ("eq", "ne"):
            self.spend(min(self.size(left), self.size(right)))
        elif not _ordered(left, right):
            return None
        return self.COMPARATOR_FUNC[node["value"]](left, right)

    def _opened(self, value: Any) -> Any:
        """Return what a path continues in: a tuple as a list, and a text that is JSON parsed."""
        if isinstance(value, tuple):
            self.spend(len(value))
            return list(value)
        if not isinstance(value, str):
            return value
        known = self._texts.get(id(value))
        if known is None:
            self.spend(len(value) // 16)
            found = json_in(value)
            known = self._texts[id(value)] = (value, value if found is None else found)
        return known[1]


def _ordered(left: Any, right: Any) -> bool:
    if isinstance(left, str) and isinstance(right, str):
        return True
    return _is_number(left) and _is_number(right)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _too_large() -> PflowError:
    message = f"it makes a value of more than {LARGEST:,} parts (sixteen characters count as one)"
    return PflowError(message, suggestions=("Filter first, or write large data to a file",))


def _described(value: object) -> str:
    """Return the words for a value that has no items."""
    if isinstance(value, str):
        return "a string that is not JSON"
    if isinstance(value, dict) and value:
        return cut(f"an object with {', '.join(map(str, value))}")
    return shown(value)


@attrs.frozen(eq=False, repr=False)
class Expression:
    """A parsed expression.

    Attributes:
        text: As written.
        syntax: Its tree.
    """

    text: str
    syntax: Syntax

    def value(
        self, everything: Mapping[str, Any], current: Any = None, *, secrets: Secrets | None = None
    ) -> Any:
        """Evaluate the expression; it reads these values and nothing else, and changes none of them.

        Raises:
            PflowError: It cannot be evaluated, or takes too much work or memory.
        """
        evaluation = Evaluation(everything, secrets)
        with foreign_code(self._failure):  # the values may be objects of nodes, which may raise anything
            return evaluation.visit(self.syntax.tree, current)

    def _failure(self, error: BaseException) -> PflowError:
        is_deep = isinstance(error, RecursionError)
        reason = "a value is nested too deeply" if is_deep else said(error)
        message = f"The expression {cut(self.text)!r} failed: {reason}"
        steps = error.suggestions if isinstance(error, PflowError) else ()
        return PflowError(message, details={"expression": self.text}, suggestions=steps)


def is_true(value: object) -> bool:
    """Return whether the value of a condition counts as true.

    As in JMESPath, false are `false`, `null`, and an empty string, list or object; 0 is not.
    """
    return value is not None and value is not False and value not in ("", [], {}, ())


@lru_cache(maxsize=512)
def parsed(text: str) -> Expression:
    """Parse an expression; the same text is parsed once.

    Raises:
        PflowError: It is not an expression; says where and what to do.
    """
    return Expression(text, read_syntax(text))
