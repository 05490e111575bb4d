"""Parts of an object that are made on first use, once, even if several threads ask at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cached_property
from typing import Any, Self, TypeVar, overload

T_co = TypeVar("T_co", covariant=True)


class shared_part(cached_property[T_co]):  # noqa: N801 - used as a decorator, like its base
    """A `cached_property` for parts that threads share: with the lock its base lacks since Python 3.12."""

    def __init__(self, func: Callable[[Any], T_co]) -> None:
        super().__init__(func)
        self._making = threading.RLock()  # reentrant: making a part may need itself

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> T_co: ...
    def __get__(self, instance: object | None, owner: type[Any] | None = None) -> Self | T_co:
        if instance is None:
            return self
        with self._making:
            return super().__get__(instance, owner)
