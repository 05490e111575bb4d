"""A function in a thread that nothing waits for: the keyring may ask the user, who presses Ctrl-C instead."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

Given = ParamSpec("Given")
Made = TypeVar("Made")


async def in_daemon_thread(
    function: Callable[Given, Made], /, *args: Given.args, **kwargs: Given.kwargs
) -> Made:
    """Return what a function returns that runs in a daemon thread of its own.

    A loop that ends waits for the threads of `asyncio.to_thread`, and so does the program.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Made] = loop.create_future()

    def settle(how: Callable[[Any], None], value: Any) -> None:
        if not future.done():  # cancelled
            how(value)

    def work() -> None:
        outcome: tuple[Callable[[Any], None], Any]
        try:
            outcome = future.set_result, function(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001 - raised again where it is awaited
            outcome = future.set_exception, error
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=work, name="sign-in", daemon=True).start()
    return await future
