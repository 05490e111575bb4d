"""Uses of tools over real upgrades of servers: what stops, and what goes on."""

from __future__ import annotations

from jsonschema import Draft202012Validator

from pflow_mcp_plugin.errors import Where
from pflow_mcp_plugin.schemas.schema_outline import sample
from pflow_mcp_plugin.trust.tool_use import ToolUse
from pflow_mcp_plugin.types import ToolRecord
from tests.data.server_upgrades import upgrades

MOST_NEEDLESS = 0.05


def uses():
    """Yield each tool that an upgrade changed, with the least that it must be given."""
    for upgrade in upgrades():
        for name, old in upgrade.before.items():
            new = upgrade.after.get(name)
            arguments = sample(old.input_schema, old.input_schema)
            if new is not None and new != old and Draft202012Validator(old.input_schema).is_valid(arguments):
                yield old, new, arguments


def stopped(old, new, arguments):
    record = ToolRecord(server="s", node=f"mcp-s-{old.name}", tool=old, found=new)
    use = ToolUse(record, Where(server="s", tool=old.name, node=record.node))
    reads = [(key,) for key in (old.output_schema or {}).get("properties", {})]
    return [problem.message for problem in use.problems(arguments, reads)]


def is_broken(old, new, arguments):
    """Whether a use fails after the upgrade: its arguments are invalid, or an output is gone."""
    outputs = [(it.output_schema or {}).get("properties", {}) for it in (old, new)]
    return not Draft202012Validator(new.input_schema).is_valid(arguments) or bool(
        outputs[0].keys() - outputs[1]
    )


def test_every_use_that_an_upgrade_breaks_is_stopped_and_few_others():
    found = [(is_broken(*use), stopped(*use), use) for use in uses()]
    assert len(found) > 120
    let_through = [(use[0].name, use[2]) for broken, messages, use in found if broken and not messages]
    assert let_through == []
    needless = [messages for broken, messages, _ in found if messages and not broken]
    assert len(needless) <= MOST_NEEDLESS * len(found), needless
