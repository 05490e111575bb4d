"""Whether a use of a tool fits the tool as it is now, and means what it meant when the tool was approved."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import attrs

from pflow_mcp_plugin.contract import Problem
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.discovery.tool_approval import approval_command
from pflow_mcp_plugin.errors import McpError, Where
from pflow_mcp_plugin.schemas.argument_validation import Validator
from pflow_mcp_plugin.terminal.printable_text import one_line
from pflow_mcp_plugin.trust.use_changes import Path, objections
from pflow_mcp_plugin.types import ToolRecord


class ToolUse:
    """Judges the uses of one tool, before a run and before each call.

    Args:
        record: The tool as of its last sync.
        where: The tool, for errors.
    """

    def __init__(self, record: ToolRecord, where: Where) -> None:
        self._record = record
        self._where = where
        quotable = record.tool.input_schema if record.is_approved else False
        self._validator = Validator(
            record.found.input_schema, where, quotable=quotable if record.found is not record.tool else None
        )

    @property
    def notice(self) -> str:
        """What to say of a use that goes on although the tool changed; empty if it did not."""
        if not self._record.has_changed:
            return ""
        see = f"see: pflow mcp diff {self._record.server}"
        return f"{self._changed}; what is used of it did not ({see})"

    def problems(
        self, arguments: Mapping[str, object], reads: Collection[Path] = (), reported: Collection[str] = ()
    ) -> Iterator[Problem]:
        """Yield what is wrong with a use before it runs.

        Args:
            arguments: Its arguments; `UNKNOWN` where only the run knows the value.
            reads: The outputs that it reads, as paths.
            reported: Arguments that are known to be missing.

        Raises:
            McpError: The arguments cannot be checked, as the schema is infinite.
        """
        for violation in self._validator.violations(arguments):
            if violation.is_new:
                yield self._affected(str(violation), violation.argument)
            elif violation.path not in reported:
                yield self._validator.problem(violation)
        for path, what in self._objections(arguments, reads):
            yield self._affected(what, path)

    def check(self, arguments: JSONObject) -> JSONObject:
        """Judge the arguments of one call, and return those to send.

        Raises:
            McpError: They do not fit, or the tool changed in a way that affects them; nothing was sent.
        """
        sent: JSONObject = self._validator.without_unset(arguments)
        violations = self._validator.violations(sent)
        new = [str(each) for each in violations if each.is_new]
        if violations and not new:
            raise self._validator.error(violations)
        what = [*new, *(words for _, words in self._objections(sent, ()))]
        if what:
            raise McpError(
                f"{self._changed}: {'; '.join(what)}",
                where=attrs.evolve(self._where, phase="arguments"),
                next_step=self._step,
                violations=[attrs.asdict(each) for each in violations],
                differences=[*what],
                approve=self._approval,
                kind="validation",
            )
        return sent

    def _objections(
        self, arguments: Mapping[str, object], reads: Collection[Path]
    ) -> Iterator[tuple[str, str]]:
        if self._record.has_changed:
            yield from objections(self._record.tool, self._record.found, arguments, reads)

    @property
    def _changed(self) -> str:
        what = "changed since it was approved" if self._record.is_approved else "is not approved yet"
        return f"Tool {one_line(self._record.tool.name)} of server {self._record.server} {what}"

    @property
    def _approval(self) -> str:
        return approval_command(self._record.server, self._record.tool.name)

    @property
    def _step(self) -> str:
        see = f"pflow mcp diff {self._record.server}"
        return f"See the difference: {see}; mend the use, then approve the tool: {self._approval}"

    def _affected(self, what: str, path: str) -> Problem:
        return Problem(
            message=f"{self._changed}: {what}",
            path=path,
            suggestion=self._step,
            kind="validation",
            source="mcp",
        )
