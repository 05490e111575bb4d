"""Models of the `llm` library, the extra `[llm]`: finding one, and what its failures mean."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from email.message import Message
from http import HTTPStatus
from socket import gaierror
from typing import Any

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.plugins import own_distribution


def llm_library() -> Any:
    """Import the `llm` library; an error says how to install it."""
    try:
        import llm
    except ImportError as error:
        raise llm_missing() from error
    return llm


def llm_missing() -> PflowError:
    """Return the error of a language model that needs the `llm` library, which is not installed."""
    mine = own_distribution()
    package = f"'{mine.name}[llm]'" if mine else "llm"
    message = "The library llm is not installed"
    return PflowError(message, suggestions=(f"pip install {package}",), kind="config")


def unknown_model(name: str | None) -> PflowError:
    """Return the error of a language model that the `llm` library does not know."""
    return PflowError(f"Unknown model {name}", suggestions=("See: llm models",), kind="config")


def not_accepted(model: Any, error: ValueError) -> PflowError:
    """Return the error of a language model that does not accept the options or the schema it was given."""
    mistakes = str(error)
    listed = getattr(error, "errors", None)  # pydantic's error about options lists the mistakes
    if callable(listed):
        mistakes = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in listed())
    message = f"The model {model.model_id} does not accept this: {mistakes}"
    return PflowError(message, suggestions=("See: llm models --options",), kind="config")


def turned_away(error: BaseException) -> PflowError | None:
    """Return a retryable error if the language model's provider turned a request away unread, else None."""
    chain = list(_chain(error))
    status = http_status(error)
    if status in (429, 503, 529):  # too many requests, unavailable, overloaded
        headers = (getattr(getattr(it, "response", it), "headers", None) for it in chain)
        waits = (str(it.get("Retry-After", "")) for it in headers if isinstance(it, Mapping | Message))
        return PflowError(
            f"The model rejected the request: {error}",
            details={"status": status},
            action="rate_limited" if status == HTTPStatus.TOO_MANY_REQUESTS else "error",
            ran="not ran",
            retryable=True,
            # In seconds; dates are ignored, as clocks may differ.
            retry_after=next((float(it) for it in waits if it.isdecimal()), None),
        )
    if any(isinstance(cause, (ConnectionRefusedError, gaierror)) for cause in chain):
        message = f"The model could not be reached: {chain[-1]}"
        return PflowError(message, kind="connection", ran="not ran", retryable=True)
    return None


def http_status(error: BaseException) -> int | None:
    """Return the HTTP status with which a language model's provider answered, None if it did not."""
    # `status_code` if a model's library raised it, `code` if Python's own `urllib` did.
    found = (getattr(it, name, None) for it in _chain(error) for name in ("status_code", "code"))
    return next((status for status in found if isinstance(status, int) and status), None)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def kept_key(model: Any, settings: Callable[[str], str | None]) -> str | None:
    """Return a language model's API key: the setting with the name of its environment variable.

    None if that variable is set, since the library reads it itself.
    """
    variable = getattr(model, "key_env_var", None)
    return None if not variable or variable in os.environ else settings(variable)
