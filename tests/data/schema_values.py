"""Values that fit a JSON Schema, made by hypothesis-jsonschema."""

from collections.abc import Iterator
from typing import Any

import hypothesis_jsonschema._from_schema as implementation
from hypothesis.internal.conjecture import utils
from hypothesis_jsonschema import from_schema

__all__ = ["from_schema"]


class Many:
    """`many` as hypothesis-jsonschema 0.23.1 uses it, which newer releases of hypothesis have changed."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._many = utils.many(*arguments, **options)
        self._left: Iterator[None] | None = None

    def more(self) -> bool:
        """Return whether one more element is to be made."""
        if self._left is None:
            self._many.__enter__()
            self._left = iter(self._many)
        for _ in self._left:
            return True
        self._many.__exit__(None, None, None)
        return False

    def reject(self) -> None:
        """Leave the last element out."""
        self._many.reject()


class Changed:
    """The module with `many` in place of which `Many` stands."""

    many = Many

    def __getattr__(self, name: str) -> Any:
        return getattr(utils, name)


if not hasattr(utils.many, "more"):
    implementation.cu = Changed()
