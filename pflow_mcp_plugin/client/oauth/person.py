"""The person who signs in, as a login reaches them."""

from __future__ import annotations

from collections.abc import Callable

import attrs


@attrs.frozen(kw_only=True)
class Person:
    """The ways of a login to the person who signs in.

    Attributes:
        show: Shows them lines, such as a URL or a code to type.
        open_url: Opens a URL in their browser, which may fail unnoticed; None if there is none here.
        read_redirect: Shows them a text and reads the line that they paste, without showing it; empty if they
            paste nothing.
    """

    show: Callable[[str], None]
    open_url: Callable[[str], None] | None = None
    read_redirect: Callable[[str], str] = lambda _: ""
