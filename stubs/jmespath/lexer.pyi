from collections.abc import Iterator
from typing import Any

class Lexer:
    SIMPLE_TOKENS: dict[str, str]
    _expression: str
    _position: int
    def tokenize(self, expression: str) -> Iterator[dict[str, Any]]: ...
    def _consume_until(self, delimiter: str) -> str: ...
    def _consume_raw_string_literal(self) -> dict[str, Any]: ...
