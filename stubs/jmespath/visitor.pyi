from collections.abc import Callable
from typing import Any

from jmespath.functions import Functions

class Options:
    def __init__(self, dict_cls: type | None = ..., custom_functions: Functions | None = ...) -> None: ...

class TreeInterpreter:
    COMPARATOR_FUNC: dict[str, Callable[[Any, Any], Any]]
    def __init__(self, options: Options | None = ...) -> None: ...
    def visit(self, node: dict[str, Any], *args: Any, **kwargs: Any) -> Any: ...
