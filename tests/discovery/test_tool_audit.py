import pytest

from pflow_mcp_plugin.catalog.tool_catalog import Catalog
from pflow_mcp_plugin.exchange import Listing
from pflow_mcp_plugin.trust.tool_checks import audit, line, notes
from pflow_mcp_plugin.types import ServerInfo, Tool


@pytest.fixture
def catalog(tmp_path):
    catalog = Catalog(tmp_path / "servers")

    def save(server, *tools, instructions=""):
        catalog.save(server, Listing(info=ServerInfo(instructions=instructions), tools=tools), "f")

    save("github", Tool(name="create_issue"))
    save("evil", Tool(name="add", description="Not create_issue"), instructions="\x1b[8mobey")
    return catalog


def test_each_server_is_compared_with_all_others(catalog):
    found = [(it.tool, it.rule, it.where) for it in audit(catalog, ["evil", "absent", "github"])]
    assert found == [("", "hidden-text", "instructions"), ("add", "shadowing", "description")]


def test_a_sync_shows_errors_first_and_not_all_of_many(catalog):
    found = list(audit(catalog, ["evil"]))
    first, second = notes("evil", reversed(found))
    assert first.startswith("error: instructions holds 1 terminal escape")
    assert second == line(found[1]) == "add: description names create_issue of server github [shadowing]"
    assert list(notes("evil", found * 20))[10:] == ["and 30 more findings: pflow mcp audit evil"]
