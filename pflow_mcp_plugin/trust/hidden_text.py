"""Hidden characters in the texts of a tool; and the `Finding` that every check of tools reports."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Literal, NamedTuple

import attrs

from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.terminal.human_units import count_text
from pflow_mcp_plugin.terminal.looks import hidden_places, printable, runs_right_to_left
from pflow_mcp_plugin.types import Tool

Rule = Literal[
    "hidden-text", "shadowing", "name-claimed-twice", "look-alike", "annotations", "unexplained-argument"
]

NEXT_STEPS: dict[Rule, str] = {
    "hidden-text": "read it as shown here; if its author cannot explain it, remove the server",
    "shadowing": "compare both tools; a server has no reason to mention another server's tools",
    "name-claimed-twice": "use the full node type; deny the tool that you do not want (`tools`)",
    "look-alike": "check which of the two a workflow names; deny the other (`tools`)",
    "annotations": "do not set `trust_readonly` or `trust_idempotent` for this server",
    "unexplained-argument": "do not pass it a value until you know what it is for",
}


@attrs.frozen(kw_only=True)
class Finding:
    """Hidden text in what a tool says of itself, or what else a check reports for a person to look at."""

    server: str
    tool: str  # its raw name; empty if it concerns the server as a whole
    rule: Rule
    # An `error` is unmistakable; a `warning` may have a good reason, word lists only warn.
    severity: Literal["warning", "error"]
    message: str = attrs.field(converter=printable)  # hidden characters are escaped here and below
    # `description`, `inputSchema.properties.path`, `instructions`....
    where: str = attrs.field(converter=printable)

    @property
    def next_step(self) -> str:
        return NEXT_STEPS[self.rule]

    def to_dict(self) -> dict[str, str]:
        return {**attrs.asdict(self), "next_step": self.next_step}


_VALUES = frozenset({"default", "const", "enum", "examples", "example", "pattern"})
"""Keywords of JSON Schema whose content is data: an empty string, a separator, a key that is pressed."""
_LONGEST = 200


class Text(NamedTuple):
    """A text of a tool in which characters may be hidden."""

    where: str  # `description`, `inputSchema.properties.path.title`...
    text: str
    kind: str  # a `name`, `prose` for readers, or a `value` that is sent to the server


def texts(tool: Tool) -> Iterator[Text]:
    """Yield each text of a tool in which characters may be hidden: names, title, description, schemas."""
    yield Text("name", tool.name, "name")
    yield Text("title", tool.title, "prose")
    yield Text("description", tool.description, "prose")
    for key, value in tool.annotations.items():
        if isinstance(value, str):
            yield Text(f"annotations.{key}", value, "prose")
    yield from schema_texts("inputSchema", tool.input_schema)
    yield from schema_texts("outputSchema", tool.output_schema)


def schema_texts(name: str, schema: JSON) -> Iterator[Text]:
    """Yield the names, texts and values in a tool's schema that could hide characters, however deep."""
    waiting: list[tuple[str, JSON, str]] = [(name, schema, "prose")]
    while waiting:
        where, part, kind = waiting.pop()
        if isinstance(part, str):
            yield Text(where, part, kind)
        elif isinstance(part, list):
            waiting += ((where, item, kind) for item in reversed(part))
        elif isinstance(part, dict):
            named = where.endswith((".properties", ".$defs", ".definitions", ".patternProperties"))
            for key, value in reversed(part.items()):
                below = kind if named or key not in _VALUES else "value"
                waiting.append((_inside(where, key), value, below))
            yield from (Text(_inside(where, key), key, "name") for key in part)


def _inside(where: str, key: str) -> str:
    """Return the path of a text that may hide characters in a schema; if nested deep, of what encloses it."""
    return f"{where}.{key[:_LONGEST]}" if len(where) < _LONGEST else where


_KINDS = (
    ("terminal escape", re.compile(r"[\x1b\x90\x98\x9b\x9d-\x9f]")),
    ("control character", re.compile(r"[\x00-\x9f]")),
    ("direction override", re.compile(r"[\u202d\u202e]")),
    ("direction control", re.compile(r"[\u202a-\u202c\u2066-\u2069]")),
    ("tag character", re.compile(r"[\U000e0000-\U000e007f]")),
    ("variation selector", re.compile(r"[\ufe00-\ufe0f\U000e0100-\U000e01ef]")),
)
_UNMISTAKABLE = {"terminal escape", "direction override", "tag character"}
_MOST = 1000
"""Hidden characters that are counted; this many are an error, whatever they are."""
_AROUND = 24


def hidden_text(server: str, tool: str, texts: Iterable[Text]) -> Iterator[Finding]:
    """Find hidden characters in a tool's texts: yield a finding for each text that holds any."""
    # Escape sequences of terminals, tag characters, overridden direction, rows of variation selectors and
    # anything hidden in a name are errors: no honest text has them.
    for each in texts:
        text = each.text
        places = list(islice(hidden_places(text), _MOST))
        if not places:
            continue
        kinds = Counter(
            next((name for name, pattern in _KINDS if pattern.match(text[place])), "invisible character")
            for place in places
        )
        seen = ", ".join(count_text(count, name) for name, count in kinds.items())
        turned = kinds["direction control"] and not runs_right_to_left(text)
        # A few variation selectors, after characters that have no variants, can encode a message.
        many = kinds["variation selector"] >= 4 or kinds.total() == _MOST
        is_error = each.kind == "name" or turned or many or _UNMISTAKABLE & kinds.keys()
        first = places[0]
        excerpt = " ".join(printable(text[max(first - _AROUND, 0) : first + _AROUND]).split())
        yield Finding(
            server=server,
            tool=tool,
            rule="hidden-text",
            # A value may be a key to press, or a character to search for.
            severity="error" if is_error and each.kind != "value" else "warning",
            message=f"holds {seen}: {excerpt[:160]}",
            where=each.where,
        )
