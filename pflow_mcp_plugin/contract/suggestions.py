"""Suggestions: the words that a plugin's command offers to a shell that completes a line."""

from __future__ import annotations

from typing import Literal

import attrs

from pflow_mcp_plugin.contract.validators import one_of, text


@attrs.frozen(kw_only=True)
class Suggestion:
    """A word, or the beginning of one, that a plugin's command suggests for the cursor of a shell.

    Attributes:
        value: The whole word.
        help: One line about it, for shells that show it.
        type: `stem` for one after which more follows; for `file` and `dir` the shell lists files or
            folders, and `value` is what stands before the path in the same word, as in `--body=@`.

    Raises:
        ValueError: A field is invalid; names it.
    """

    value: str = attrs.field(validator=text)
    help: str = attrs.field(default="", validator=text)
    type: Literal["plain", "stem", "file", "dir"] = attrs.field(
        default="plain", validator=one_of("plain", "stem", "file", "dir")
    )
