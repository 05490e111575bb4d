"""The checks over real tools, over anything, and their cost."""

from __future__ import annotations

from time import process_time

import attrs
import livemcpbench
import pytest
from hostile import SCHEMAS
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin.trust.name_index import index_names
from pflow_mcp_plugin.trust.tool_checks import check_tools
from pflow_mcp_plugin.types import Tool

ODD = st.text() | st.sampled_from(["create_issue", "\u0441reate", "\x1b[2J", "`search` of github", "\ud800"])


def _tool(listed):
    return Tool(
        name=listed["name"],
        title=listed.get("title") or "",
        description=listed.get("description") or "",
        input_schema=listed["inputSchema"],
        output_schema=listed.get("outputSchema"),
        annotations=listed.get("annotations") or {},
    )


@pytest.fixture(scope="module")
def real():
    """The tools of 70 real servers, by server."""
    return {server.name: [_tool(each) for each in server.tools] for server in livemcpbench.servers()}


def _names(tools):
    return index_names({server: [tool.name for tool in listed] for server, listed in tools.items()})


def test_of_527_real_tools_none_is_an_error_and_few_are_warned_about(real):
    names = _names(real)
    found = [it for server, tools in real.items() for it in check_tools(server, tools, "", names)]
    count = sum(map(len, real.values()))
    assert count == 527
    assert [it for it in found if it.severity == "error"] == []
    assert len(found) <= 0.02 * count
    # Servers that share names of tools are told so once each; no tool is warned about.
    assert {(it.tool, it.rule) for it in found} == {("", "name-claimed-twice")}


@given(ODD, ODD, ODD, SCHEMAS, st.none() | SCHEMAS, st.dictionaries(ODD, ODD | st.booleans() | st.none()))
def test_no_text_and_no_schema_stops_the_checks(name, text, said, schema, output, annotations):
    tool = Tool(
        name=name,
        title=text,
        description=text,
        input_schema=schema,
        output_schema=output,
        annotations=annotations,
    )
    names = index_names({"github": ["create_issue", "search", text], "evil": [name]}, [name])
    for finding in check_tools("evil", [tool, tool], said, names):
        assert finding.to_dict()["next_step"]
        assert "\x1b" not in finding.message + finding.where


@pytest.mark.slow
@pytest.mark.parametrize("servers", [20, 1000])
def test_ten_thousand_tools_take_bounded_time(real, servers):
    listed = [tool for tools in real.values() for tool in tools]
    each = 10_000 // servers
    tools = {
        f"server-{number}": [
            attrs.evolve(listed[(number * each + place) % len(listed)], name=f"tool_{place}")
            for place in range(each)
        ]
        for number in range(servers)
    }
    begun = process_time()
    names = _names(tools)
    for server, its in tools.items():
        for _ in check_tools(server, its, "", names):
            pass
    assert process_time() - begun < 20
