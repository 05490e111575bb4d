"""Text that a person does not see: control, zero-width, direction and tag characters."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Literal

from pflow_mcp_plugin.terminal.human_units import count_text
from pflow_mcp_plugin.terminal.printable_text import hidden_places, printable, runs_right_to_left
from pflow_mcp_plugin.trust.tool_findings import Finding
from pflow_mcp_plugin.trust.tool_texts import Text

_KINDS = (
    ("terminal escape", re.compile(r"[\x1b\x90\x98\x9b\x9d-\x9f]")),
    ("control character", re.compile(r"[\x00-\x9f]")),
    ("direction override", re.compile(r"[\u202d\u202e]")),
    ("direction control", re.compile(r"[\u202a-\u202c\u2066-\u2069]")),
    ("tag character", re.compile(r"[\U000e0000-\U000e007f]")),
    ("variation selector", re.compile(r"[\ufe00-\ufe0f\U000e0100-\U000e01ef]")),
)
_OTHER = "invisible character"
_UNMISTAKABLE = {"terminal escape", "direction override", "tag character"}
_SELECTORS = 4
"""As many variation selectors, after characters that have no variants, can encode a message."""
_MOST = 1000
"""Hidden characters that are counted; so many are an error, whatever they are."""
_AROUND = 24
_SHOWN = 160


def hidden_text(server: str, tool: str, texts: Iterable[Text]) -> Iterator[Finding]:
    """Yield a finding for each text that holds hidden characters.

    Escape sequences of terminals, tag characters, overridden direction, rows of variation selectors and
    anything hidden in a name are errors: no honest text has them.

    Args:
        server: The server's name.
        tool: The tool's name; empty for the instructions of the server.
        texts: Its texts.
    """
    for each in texts:
        text = each.text
        places = list(islice(hidden_places(text), _MOST))
        if not places:
            continue
        kinds = Counter(_kind(text[place]) for place in places)
        seen = ", ".join(count_text(count, name) for name, count in kinds.items())
        first = places[0]
        excerpt = " ".join(printable(text[max(first - _AROUND, 0) : first + _AROUND]).split())
        yield Finding(
            server=server,
            tool=tool,
            rule="hidden-text",
            severity=_severity(each, kinds),
            message=f"holds {seen}: {excerpt[:_SHOWN]}",
            where=each.where,
        )


def _severity(text: Text, kinds: Counter[str]) -> Literal["warning", "error"]:
    if text.kind == "value":  # it may be a key to press, or what to search for
        return "warning"
    turned = kinds["direction control"] and not runs_right_to_left(text.text)
    many = kinds["variation selector"] >= _SELECTORS or kinds.total() == _MOST
    return "error" if text.kind == "name" or turned or many or _UNMISTAKABLE & kinds.keys() else "warning"


def _kind(char: str) -> str:
    return next((name for name, pattern in _KINDS if pattern.match(char)), _OTHER)
