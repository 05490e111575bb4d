"""What the checks of tools find."""

from __future__ import annotations

from typing import Literal

import attrs

from pflow_mcp_plugin.terminal.printable_text import printable

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
    """Something about a server or one of its tools that a person should look at.

    Attributes:
        server: The server's configured name.
        tool: The tool's raw name; empty if it concerns the server as a whole.
        rule: The check that found it.
        severity: An `error` is unmistakable; a `warning` may have a good reason. Word lists only warn.
        message: What was seen; hidden characters in it and in `where` are escaped.
        where: The part of the tool: `description`, `inputSchema.properties.path`, `instructions`...
    """

    server: str
    tool: str
    rule: Rule
    severity: Literal["warning", "error"]
    message: str = attrs.field(converter=printable)
    where: str = attrs.field(converter=printable)

    @property
    def next_step(self) -> str:
        """What to do about it."""
        return NEXT_STEPS[self.rule]

    def to_dict(self) -> dict[str, str]:
        """Return the finding with its next step, for `--json`."""
        return {**attrs.asdict(self), "next_step": self.next_step}
