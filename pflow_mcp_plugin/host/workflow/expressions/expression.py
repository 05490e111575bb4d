"""A parsed expression."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import attrs

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.foreign_code import foreign_code
from pflow_mcp_plugin.host.workflow.expressions.evaluation import Evaluation, Secrets
from pflow_mcp_plugin.host.workflow.expressions.syntax import Syntax, read_syntax
from pflow_mcp_plugin.host.workflow.findings import cut, said

__all__ = ["Expression", "Secrets", "is_true", "parsed"]


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

        Args:
            everything: The values in scope by name: what `$` stands for.
            current: What `@` stands for at first, and what names are looked up in.
            secrets: Those of the run.

        Raises:
            PflowError: It cannot be evaluated, or takes too much work or memory.
        """
        evaluation = Evaluation(everything, secrets)
        with foreign_code(self._failure):  # the values may be objects of nodes, which may raise anything
            return evaluation.visit(self.syntax.tree, current)

    def _failure(self, error: BaseException) -> PflowError:
        message = f"The expression {cut(self.text)!r} failed: {_reason(error)}"
        steps = error.suggestions if isinstance(error, PflowError) else ()
        return PflowError(message, details={"expression": self.text}, suggestions=steps)


def _reason(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "a value is nested too deeply"
    return said(error)


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
