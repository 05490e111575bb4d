"""What the HTTP server writes to stderr: one line for each failure of its own."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pflow_mcp_plugin.contract.printable_text import one_line
from pflow_mcp_plugin.redaction import Redactor

_LOGGERS = ("uvicorn", "mcp", "sse_starlette", "asyncio")


class _FailureLines(logging.Handler):
    """Writes what failed and where, but no message of an exception: it may quote the request."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__(logging.ERROR)
        self._redactor = redactor

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line of a failure; characters that are not printable are escaped."""
        text = self._redactor.text(record.getMessage().splitlines()[0] if record.getMessage() else "")
        error = record.exc_info[1] if record.exc_info else None
        print(f"Error: {one_line(text)}{f' ({_kind(error)})' if error else ''}", file=sys.stderr, flush=True)  # noqa: T201


def _kind(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = f" in {Path(last[0].filename).name}:{last[0].lineno}" if last else ""
    return f"{type(error).__name__}{where}"


@contextmanager
def failures_logged(redactor: Redactor) -> Iterator[None]:
    """Log failures of the server to stderr, redacted; requests are not logged."""
    handler = _FailureLines(redactor)
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [logger.propagate for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.propagate = False
    try:
        yield
    finally:
        for logger, propagated in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.propagate = propagated
