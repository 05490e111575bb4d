"""What is too long or too many is shown up to a limit, and says so; what fits exactly is shown whole."""

import re
from bisect import bisect_left

import pytest

from pflow_mcp_plugin.catalog import json_values
from pflow_mcp_plugin.cli import server_sync
from pflow_mcp_plugin.client import tool_lists
from pflow_mcp_plugin.client.failures import evidence
from pflow_mcp_plugin.contract import ValuePath
from pflow_mcp_plugin.discovery.tool_sync import Synced
from pflow_mcp_plugin.exchange import Listing
from pflow_mcp_plugin.host.cli import registry_commands
from pflow_mcp_plugin.host.running.value_excerpt import Excerpt, sampled
from pflow_mcp_plugin.host.workflow import findings
from pflow_mcp_plugin.redaction.redactor import Redactor
from pflow_mcp_plugin.schemas import argument_validation, schema_outline
from pflow_mcp_plugin.terminal import looks
from pflow_mcp_plugin.trust import tool_checks
from pflow_mcp_plugin.trust.hidden_text import Finding
from pflow_mcp_plugin.trust.name_index import index_names
from pflow_mcp_plugin.trust.tool_difference import Changes
from pflow_mcp_plugin.types import ServerInfo, Tool

DOTS = "..."
PLANTED = "planted-secret"


def key_in_an_excerpt(text):
    (key,) = Excerpt(Redactor(), 100_000).of({text: 1})
    return key


CUTS = {
    "an argument": lambda text: argument_validation._shown(text).strip('"'),
    "a redacted text": lambda text: Redactor().shortened(text, 50),
    "a sample of a node": lambda text: sampled({"a": text}, str)[0].sample,
    "a text of a tool": json_values.excerpt,
    "a line of a log": lambda text: "\n".join(evidence.excerpt(text)[0]),
    "a key in a trace": key_in_an_excerpt,
    "a text in a trace": lambda text: Excerpt(Redactor(), 100_000, longest=50).of(text),
    "a cell of a table": lambda text: looks.cut(text, 20),
}
"""How texts are shown: those that `abbreviated` cuts, of which the argument stands for all, and others."""


@pytest.mark.parametrize("shown", CUTS.values(), ids=CUTS)
def test_a_text_is_shown_whole_or_cut_with_a_mark_where_something_is_left_out(shown):
    lengths = range(10_000)
    limit = bisect_left(lengths, True, key=lambda length: shown("x" * length) != "x" * length) - 1
    assert 0 < limit < lengths[-1]
    cut = shown("x" * (limit + 1))
    kept = len(cut) - len(cut.lstrip("x"))
    assert limit - len(DOTS) <= kept <= limit
    assert cut[kept:].lstrip().startswith((DOTS, "…"))


def findings_of_an_audit(names):
    found = [
        Finding(
            server="s",
            tool=name,
            rule="name-claimed-twice",
            severity="warning",
            message="odd",
            where="name",
        )
        for name in names
    ]
    return tool_checks.notes("s", found)


def tools_of_a_sync(names):
    return server_sync._findings(Synced(server="s", changes=Changes(added=tuple(names))))


def redacted_tools(names):
    tools = tuple(Tool(name=name, description=f"Say {PLANTED}") for name in names)
    listing = Listing(info=ServerInfo(name="s"), tools=tools)
    return tool_lists.redacted_listing(listing, Redactor([PLANTED])).notes


def claimed_tools(names):
    index = index_names({"a": names, "b": names})
    return [each.message for each in tool_checks.claimed_names("a", names, index) if not each.tool]


def paths_of_a_run(names):
    shape = [ValuePath(path=name, type="str") for name in names]
    table, *_ = registry_commands._came_back({"out": 1}, shape)
    return [" ".join(row) for row in table.rows]


LISTS = {
    "names in a message": lambda names: [findings.listing(names)],
    "tools after a sync": tools_of_a_sync,
    "findings after a sync": findings_of_an_audit,
    "tools that hold secrets": redacted_tools,
    "tools that another server has too": claimed_tools,
    "paths of a run": paths_of_a_run,
}
"""How names are listed."""


@pytest.mark.parametrize("listed", LISTS.values(), ids=LISTS)
def test_all_names_are_listed_or_the_first_ones_and_how_many_more_there_are(listed):
    def counted(number):
        """Return which of so many names are listed, and how many more there are said to be."""
        text = "\n".join(listed([f"name_{each:03}" for each in range(number)]))
        named = [int(found) for found in re.findall(r"(?<!old-)name_(\d{3})", text)]
        return sorted(set(named)), [int(found) for found in re.findall(r"(\d+) more\b", text)]

    numbers = range(1, 200)
    limit = numbers[bisect_left(numbers, True, key=lambda number: bool(counted(number)[1])) - 1]
    assert counted(limit) == ([*range(limit)], [])
    for number in (limit + 1, limit + 5):
        assert counted(number) == ([*range(limit)], [number - limit])


def test_members_and_items_of_a_value_are_as_many_as_the_limit():
    most = json_values._MEMBERS
    fits, more = {str(number): number for number in range(most)}, {"more": 1, "most": 2}
    assert json_values.excerpt(fits) == fits
    assert json_values.excerpt(fits | more) == {**fits, DOTS: len(more)}
    assert json_values.excerpt([*fits]) == [*fits]
    assert json_values.excerpt([*fits, *more]) == [*fits, DOTS]


def test_the_sample_of_a_text_is_as_long_as_its_schema_asks_for():
    for least in (5, 50):
        schema = {"type": "string", "minLength": least}
        assert len(schema_outline.sample(schema, schema)) == least
    schema["minLength"] = 10**9
    assert len(schema_outline.sample(schema, schema)) < 1000
