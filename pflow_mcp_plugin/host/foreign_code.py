"""The one way in which the host calls code that is not its own: that of plugins and of nodes.

Such code may raise anything, also what is no `Exception` (`SystemExit`, `asyncio.CancelledError`,
`GeneratorExit`, `BaseExceptionGroup`), and exceptions that cannot be formatted. Only KeyboardInterrupt is
an interruption; everything else is a failure of that code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.interruption import end_if_interrupted


@contextmanager
def foreign_code(
    failure: Callable[[BaseException], PflowError], *, passing: tuple[type[BaseException], ...] = ()
) -> Iterator[None]:
    """Call foreign code inside the `with` block; what it raises becomes a failure of the host's.

    Args:
        failure: Returns the error to raise, which names whose code it was.
        passing: The exceptions that may pass as they are.

    Raises:
        PflowError: From `failure`.
        KeyboardInterrupt: The user interrupted the program.
    """
    try:
        yield
    except BaseException as error:  # foreign code may raise anything
        raised = _usable(error)
        if raised is error and isinstance(error, passing):
            raise
        end_if_interrupted(error)
        raise failure(raised) from raised


def _usable(error: BaseException) -> BaseException:
    """Return the exception, or the one that reading its fields raises: a subclass may override them."""
    if not isinstance(error, PflowError):
        return error
    try:
        str(error)
        fields = error.to_dict()
        if not (isinstance(error.message, str) and isinstance(error.action, str) and "type" in fields):
            return TypeError(f"the message and the action of {type(error).__name__} must be strings")
        _ = error.exit_code
    except BaseException as raised:  # noqa: BLE001 - as above
        return raised
    return error
