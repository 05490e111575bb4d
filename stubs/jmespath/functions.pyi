from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

_F = TypeVar("_F", bound=Callable[..., Any])

def signature(*arguments: dict[str, Any]) -> Callable[[_F], _F]: ...

class Functions:
    FUNCTION_TABLE: ClassVar[dict[str, dict[str, Any]]]
    def call_function(self, function_name: str, resolved_args: list[Any]) -> Any: ...
